"""A trace as its user sees it: a name over one run or several, the current trace, and the switch.

Without a tracer provider all of this is quiet and nearly free: OpenTelemetry is not imported, not even looked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Self, cast

from ..core.errors import UserError
from .base import NoSpan, Span, Tracer, check_provider, outside, trace_hex, trace_of


class _Switch:
    """Holds whether this process traces at all."""

    off = False


_CURRENT: ContextVar[Trace | None] = ContextVar("keyturn_trace", default=None)


class Trace:
    """Traces a workflow as one: runs inside its `with` are its parts; `trace()` makes one.

    `parent` is the place it continues, `links` are the places it has to do with; the engine sets them when it takes a
    run up again. Nobody traces where `tracer` is None.

    >>> with Trace("Refunds", group_id="chat 7") as traced:
    ...     traced.name, get_current_trace() is traced
    ('Refunds', True)
    """

    __slots__ = (
        "__weakref__",
        "_id",
        "_open",
        "disabled",
        "group_id",
        "links",
        "metadata",
        "name",
        "parent",
        "resumed",
        "span",
        "tracer",
    )

    def __init__(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        tracer: Tracer | None = None,
        disabled: bool = False,
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.metadata = dict(metadata or {})
        self.disabled = disabled
        self.tracer = tracer
        self.span: Span = NoSpan()
        self.parent = None if trace_id is None else outside(trace_hex(trace_id))
        self.links: list[str] = []
        self.resumed = False
        self._id = trace_id
        self._open: ExitStack | None = None

    @property
    def trace_id(self) -> str:
        """Return the trace's id, in the form that `gen_trace_id` makes."""
        place = self.span.place or self.parent
        if place:
            return f"trace_{trace_of(place)}"
        self._id = self._id or gen_trace_id()
        return self._id

    def __enter__(self) -> Self:
        if self._open is not None:
            raise UserError("this trace is open already; make another one with trace()")
        with ExitStack() as opening:
            if self.tracer is not None:
                self.span = self.tracer.start(
                    f"invoke_workflow {self.name}", self._attributes(), parent=self.parent, links=self.links
                )
                opening.callback(self.span.end)
                opening.enter_context(self.span.current())
            opening.callback(_CURRENT.reset, _CURRENT.set(self))
            self._open = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> None:
        if kind is not None:
            self.span.failed(kind.__name__)
        if self._open is not None:
            self._open.close()
            self._open = None

    def start(self, mark_as_current: bool = False) -> None:
        """Begin the trace where a `with` would not do; a trace that has begun is always current."""
        self.__enter__()

    def finish(self, reset_current: bool = False) -> None:
        """End the trace; ending twice does nothing."""
        self.__exit__(None, None, None)

    def export(self) -> dict[str, Any]:
        """The trace as a plain dict, for backends."""
        return {
            "object": "trace",
            "id": self.trace_id,
            "workflow_name": self.name,
            "group_id": self.group_id,
            "metadata": self.metadata or None,
        }

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        self.__exit__(kind, error, traceback)

    def _attributes(self) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": self.name,
            "gen_ai.conversation.id": self.group_id,
            "keyturn.resumed": self.resumed or None,
            **{f"keyturn.metadata.{name}": value for name, value in self.metadata.items()},
        }


def trace(
    workflow_name: str,
    trace_id: str | None = None,
    group_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tracing: object = None,
    disabled: bool = False,
) -> Trace:
    """Trace all runs inside the `with`, or the `async with`, as one workflow.

    `group_id` tells which traces belong to one conversation, `metadata` becomes attributes, `tracing` is an
    OpenTelemetry tracer provider in place of the process's own, and `disabled=True` leaves the runs inside untraced.

    >>> with trace("Refunds"):
    ...     pass  # await Runner.run(...), and again
    """
    if not isinstance(cast("Any", workflow_name), str) or not workflow_name:
        raise UserError("trace() needs the name of a workflow: trace('Refunds')")
    tracer = None if disabled else tracer_for(tracing)
    return Trace(workflow_name, trace_id, group_id, metadata, tracer=tracer, disabled=disabled)


def get_current_trace() -> Trace | None:
    """Return the trace that this code runs in: that of the run, or of the `with trace(...)` around it.

    >>> get_current_trace() is None
    True
    """
    return _CURRENT.get()


def gen_trace_id() -> str:
    """Make a new id for a trace, for `trace(trace_id=...)` and `RunConfig(trace_id=...)`.

    >>> len(gen_trace_id()), gen_trace_id()[:6]
    (38, 'trace_')
    """
    return f"trace_{os.urandom(16).hex()}"


def set_tracing_disabled(disabled: bool) -> None:
    """Switch tracing in this process off or on; runs that are under way stay as they are.

    >>> set_tracing_disabled(True)
    >>> set_tracing_disabled(False)
    """
    if not isinstance(cast("Any", disabled), bool):
        raise UserError(f"set_tracing_disabled takes True or False, not {disabled!r}")
    _Switch.off = disabled


def tracer_for(provider: object = None) -> Tracer | None:
    """Return the tracer of a provider, by default of the process's own; None where nobody traces.

    A process that never imported OpenTelemetry has no provider, so it is not imported to find that out.

    >>> tracer_for() is None  # here nobody set a tracer provider
    True
    """
    check_provider(provider)
    if _Switch.off:
        return None
    listeners = sys.modules.get(f"{__package__}.processing")  # whoever adds a processor has loaded it
    below = _otel_tracer(provider)
    return below if listeners is None else listeners.heard(below)


def _otel_tracer(provider: object) -> Tracer | None:
    if provider is None and "opentelemetry.trace" not in sys.modules:
        return None
    try:
        member = import_module(".otel", __package__)
    except ModuleNotFoundError as error:
        raise UserError(f"a tracer provider needs the package {error.name!r}: pip install 'keyturn[otel]'") from error
    provider = member.configured() if provider is None else provider
    return None if provider is None else member.OtelTracer(provider)
