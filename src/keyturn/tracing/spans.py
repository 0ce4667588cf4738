"""A span as users and trace processors hold it: when it began and ended, what it is about, and what went wrong.

It lies over a span of whatever tracer there is, and does as well where there is none. Which tracer that is, and who
listens, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Generic, NotRequired, Self, TypedDict, TypeVar, cast

from .base import NoSpan, trace_of
from .base import Span as TracerSpan
from .span_data import SpanData

TSpanData = TypeVar("TSpanData", bound=SpanData)
_CURRENT: ContextVar[Span[Any] | None] = ContextVar("keyturn_span", default=None)
UNTRACED = "no-op"


class SpanError(TypedDict):
    """What went wrong in a span, for `Span.set_error`.

    >>> SpanError(message="no such order", data={"order": 17})["message"]
    'no such order'
    """

    message: str
    data: NotRequired[dict[str, Any] | None]


class Span(Generic[TSpanData]):
    """Something that takes time, in a trace.

    Made by `function_span`, `custom_span` and the like; use it with `with`.

    `span_data` says what it is about and may be changed until the span ends. Without a tracer nobody hears of it.

    >>> from keyturn import custom_span
    >>> with custom_span("look up", {"shop.order": 17}) as span:
    ...     span.span_data.data["shop.found"] = True
    >>> span.span_data.export()["data"], span.ended_at is not None
    ({'shop.order': 17, 'shop.found': True}, True)
    """

    __slots__ = (
        "__weakref__",
        "_begin",
        "_given_id",
        "_marks",
        "ended_at",
        "error",
        "parent_id",
        "seam",
        "span_data",
        "started_at",
    )

    def __init__(
        self,
        span_data: TSpanData,
        begin: Callable[[Span[Any]], TracerSpan] | None = None,
        *,
        span_id: str | None = None,
    ) -> None:
        self.span_data = span_data
        self.error: SpanError | None = None
        self.started_at: str | None = None
        self.ended_at: str | None = None
        self.parent_id: str | None = None
        self.seam: TracerSpan = NoSpan()
        self._begin = begin
        self._given_id = span_id
        self._marks = ExitStack()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(span_id={self.span_id!r}, span_data={self.span_data!r})"

    # ------------------------------------------------------------------------------------------------ where it is

    @property
    def place(self) -> str:
        """The span's address as a W3C `traceparent`, "" where nobody traces."""
        return self.seam.place

    @property
    def trace_id(self) -> str:
        """The id of its trace."""
        return f"trace_{trace_of(self.place)}" if self.place else UNTRACED

    @property
    def span_id(self) -> str:
        """Its own id."""
        return self._given_id or (span_id_of(self.place) if self.place else UNTRACED)

    # ------------------------------------------------------------------------------------------------ its time

    def start(self, mark_as_current: bool = False) -> None:
        """It begins; with `mark_as_current` it is the parent of what begins until it ends."""
        if self.started_at is not None:
            return
        self.started_at = now()
        if self._begin is not None:
            self.seam = self._begin(self)
        if mark_as_current:
            self._marks.enter_context(self.current())

    def finish(self, reset_current: bool = False) -> None:
        """It ends; ending twice does nothing.

        With `reset_current` its parent is current again.
        """
        if reset_current:
            self._marks.close()
        if self.ended_at is None and self.started_at is not None:
            self.ended_at = now()
            self.seam.tell(self.span_data.attributes())
            self.seam.end()

    def end(self) -> None:
        """It ends."""
        self.finish(reset_current=True)

    def current(self) -> AbstractContextManager[Any]:
        """Make it the parent of every span that begins inside the `with`."""
        return made_current(self, self.seam)

    def __enter__(self) -> Self:
        self.start(mark_as_current=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> None:
        if kind is not None and self.error is None:
            self.failed(kind.__name__)
        self.finish(reset_current=True)

    # ------------------------------------------------------------------------------------------------ what it says

    def tell(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        data = getattr(self.span_data, "data", None)
        if isinstance(data, dict):
            cast("dict[str, Any]", data).update(attributes)
        self.seam.tell(attributes)

    def rename(self, name: str) -> None:
        """Give it the name of what it turned out to be."""
        self.seam.rename(name)

    def failed(self, kind: str, text: str = "") -> None:
        """Say that it failed: the kind of error, and its text only where the user wants texts told."""
        self.error = SpanError(message=text or kind, data={"error_type": kind})
        self.seam.failed(kind, text)

    def set_error(self, error: SpanError) -> None:
        """Say that it failed, in words of your own, which are told as you wrote them."""
        self.error = error
        self.seam.failed("error", error["message"])

    def export(self) -> dict[str, Any] | None:
        """The span as a plain dict, for backends; None where nobody traces."""
        if not self.place:
            return None
        return {
            "object": "trace.span",
            "id": self.span_id,
            "trace_id": self.trace_id,
            "parent_id": self.parent_id,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "span_data": self.span_data.export(),
            "error": self.error,
        }


def get_current_span() -> Span[Any] | None:
    """The span that this code runs in: one of its own, or the tool's or the agent's where a processor hears of it.

    >>> from keyturn import function_span
    >>> with function_span("look up") as span:
    ...     get_current_span() is span
    True
    >>> get_current_span() is None
    True
    """
    return _CURRENT.get()


def span_id_of(place: str) -> str:
    """The id of the span at a place, in the form that `gen_span_id` makes.

    >>> span_id_of("00-" + "0a" * 16 + "-" + "0b" * 8 + "-01")
    'span_000000000b0b0b0b0b0b0b0b'
    """
    return f"span_{place[36:52]:0>24}"


def now() -> str:
    """This moment as ISO 8601, with its zone."""
    return datetime.now(UTC).isoformat()


@contextmanager
def made_current(span: Span[Any], seam: TracerSpan) -> Any:
    """What `get_current_span` returns inside the `with`; the tracer below is told as well."""
    with seam.current():
        token = _CURRENT.set(span)
        try:
            yield span
        finally:
            _CURRENT.reset(token)
