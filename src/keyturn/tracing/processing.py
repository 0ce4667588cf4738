"""The second member: a tracer whose spans are told to trace processors, over another tracer or none.

Where there is another tracer its addresses are taken over, so that both tell of the same spans. What a processor
raises is logged and stays here: a run never fails because it is watched.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from ..core.errors import UserError
from ..support.user_code import run_callback
from .base import NoSpan, Tracer, trace_of
from .base import Span as TracerSpan
from .processor_interface import TracingProcessor
from .span_reading import span_data_of
from .spans import Span, made_current, now, span_id_of
from .trace import Trace

_LOG = logging.getLogger("keyturn.tracing")
_HERE: ContextVar[HeardSpan | None] = ContextVar("keyturn_heard_span", default=None)
_WORKFLOW = "invoke_workflow"
_METADATA = "keyturn.metadata."


class _Processors:
    """Who hears of this process's spans."""

    heard: tuple[TracingProcessor, ...] = ()
    closing = False


class HeardSpan:
    """A span of the other tracer, or of none, that processors hear of: as a trace, or as a `Span`."""

    def __init__(self, below: TracerSpan, parent: HeardSpan | str | None, told: tuple[str, Mapping[str, Any]]) -> None:
        self.below = below
        self.name, self.told = told[0], dict(told[1])
        above = parent.place if isinstance(parent, HeardSpan) else parent
        self.place = below.place or _new_place(trace_of(above) if above else "")
        # A trace is no span: what stands directly below it has no parent.
        is_trace = isinstance(parent, HeardSpan) and parent.trace is not None
        same = bool(above) and trace_of(above or "") == trace_of(self.place)
        self.parent_id = span_id_of(above or "") if same and not is_trace else None
        self.trace: Trace | None = None
        self.record: Span[Any] | None = None
        self._own_data = False
        self._over = False

    def begin(self, record: Span[Any] | None) -> None:
        """Tell the processors that it begins."""
        if self.told.get("gen_ai.operation.name") == _WORKFLOW:
            self.trace = self._workflow()
            if not self.told.get("keyturn.resumed"):
                _each("on_trace_start", self.trace)
            return
        self._own_data = record is not None
        if record is None:
            record = Span(span_data_of(self.name, self.told))
            record.started_at = now()
        record.seam, record.parent_id = self, self.parent_id
        self.record = record
        _each("on_span_start", record)

    def tell(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        self.below.tell(attributes)
        self.told.update({name: value for name, value in attributes.items() if value is not None})
        self._read()

    def rename(self, name: str) -> None:
        """Give it another name."""
        self.below.rename(name)
        self.name = name
        self._read()

    def failed(self, kind: str, text: str = "") -> None:
        """Say that it failed."""
        self.below.failed(kind, text)
        if self.record is not None and self.record.error is None:
            self.record.error = {"message": text or kind, "data": {"error_type": kind}}

    def end(self) -> None:
        """It is over; ending twice does nothing."""
        self.below.end()
        if self._over:
            return
        self._over = True
        if self.record is not None:
            self.record.ended_at = self.record.ended_at or now()
            _each("on_span_end", self.record)
        elif not self.told.get("keyturn.resumed"):
            _each("on_trace_end", self.trace)

    @contextmanager
    def current(self) -> Any:
        """Make it the parent of every span that begins inside the `with`."""
        with ExitStack() as stack:
            stack.enter_context(self.below.current())
            stack.callback(_HERE.reset, _HERE.set(self))
            if self.record is not None and not self._own_data:
                stack.enter_context(made_current(self.record, NoSpan()))
            yield self

    def _read(self) -> None:
        if self.record is not None and not self._own_data:
            self.record.span_data = span_data_of(self.name, self.told)

    def _workflow(self) -> Trace:
        metadata = {name.removeprefix(_METADATA): value for name, value in self.told.items() if _METADATA in name}
        group = self.told.get("gen_ai.conversation.id")
        return Trace(str(self.told.get("gen_ai.workflow.name")), f"trace_{trace_of(self.place)}", group, metadata)


class HeardTracer:
    """A tracer whose spans processors hear of, whatever the tracer below makes of them."""

    def __init__(self, below: Tracer | None) -> None:
        self._below = below

    def start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        *,
        parent: TracerSpan | str | None = None,
        links: Sequence[str] = (),
        client: bool = False,
    ) -> TracerSpan:
        """A new span."""
        return self._start(name, attributes, parent, {"links": links, "client": client}, None)

    def start_as(self, record: Span[Any], parent: TracerSpan | str | None) -> TracerSpan:
        """A new span of the user's own: processors get the very object that the user holds."""
        data = record.span_data
        return self._start(data.span_name, data.attributes(), parent, {}, record)

    def here(self) -> str:
        """The place of what is current."""
        heard = _HERE.get()
        below = "" if self._below is None else self._below.here()
        return below or ("" if heard is None else heard.place)

    def _start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        parent: TracerSpan | str | None,
        more: dict[str, Any],
        record: Span[Any] | None,
    ) -> TracerSpan:
        below: TracerSpan = NoSpan()
        if self._below is not None:
            under = parent.below if isinstance(parent, HeardSpan) else parent
            below = self._below.start(name, attributes, parent=under, **more)
        given = {key: value for key, value in attributes.items() if value is not None}
        span = HeardSpan(below, self._above(parent), (name, given))
        span.begin(record)
        return span

    def _above(self, parent: TracerSpan | str | None) -> HeardSpan | str | None:
        if isinstance(parent, HeardSpan | str):
            return parent
        return parent.place if parent is not None and parent.place else _HERE.get() or self.here() or None


def heard(below: Tracer | None) -> Tracer | None:
    """The tracer over another one that processors hear of; the other one itself where nobody listens."""
    return HeardTracer(below) if _Processors.heard else below


def add_trace_processor(span_processor: TracingProcessor) -> None:
    """Let a processor hear of every trace and span from now on, beside those that do already.

    >>> from unittest.mock import Mock
    >>> from keyturn import function_span
    >>> listener = Mock(spec=TracingProcessor)
    >>> add_trace_processor(listener)
    >>> with function_span("look up"):
    ...     pass
    >>> listener.on_span_end.call_args.args[0].span_data.name
    'look up'
    >>> set_trace_processors([])
    """
    set_trace_processors([*_Processors.heard, span_processor])


def set_trace_processors(processors: Sequence[TracingProcessor]) -> None:
    """Let these processors hear of traces and spans, and no others; [] for none.

    >>> set_trace_processors([])
    """
    for processor in processors:
        lacks = [name for name in sorted(TracingProcessor.__abstractmethods__) if not _has(processor, name)]
        if lacks:
            raise UserError(f"a trace processor needs {', '.join(lacks)}; {type(processor).__name__} has none")
    if not _Processors.closing:
        atexit.register(_shutdown)
        _Processors.closing = True
    _Processors.heard = tuple(processors)


def remove_trace_processor(processor: TracingProcessor) -> None:
    """Let a processor hear of nothing more; others go on.

    >>> from unittest.mock import Mock
    >>> remove_trace_processor(Mock(spec=TracingProcessor))  # one that hears of nothing
    """
    _Processors.heard = tuple(each for each in _Processors.heard if each is not processor)


def is_heard(processor: TracingProcessor) -> bool:
    """Whether a processor hears of spans now.

    >>> from unittest.mock import Mock
    >>> is_heard(Mock(spec=TracingProcessor))
    False
    """
    return any(each is processor for each in _Processors.heard)


def flush_traces() -> None:
    """Have every trace processor send what it holds, and return when it is sent: at the end of a job, say.

    >>> flush_traces()
    """
    _each("force_flush")


def gen_span_id() -> str:
    """A new id for a span, for `function_span(span_id=...)` and the like.

    >>> len(gen_span_id()), gen_span_id()[:5]
    (29, 'span_')
    """
    return f"span_{os.urandom(12).hex()}"


def _shutdown() -> None:
    _each("shutdown")


def _each(method: str, *about: Any) -> None:
    for processor in _Processors.heard:
        try:
            run_callback(getattr(processor, method), *about)
        except Exception:
            _LOG.warning("%s of a trace processor raised; the run continues", method, exc_info=True)


def _has(processor: object, name: str) -> bool:
    return callable(getattr(processor, name, None))


def _new_place(trace: str) -> str:
    return f"00-{trace or os.urandom(16).hex()}-{os.urandom(8).hex()}-01"
