"""Spans of the user's own, one function for each kind; used with `with`, or with `start()` and `finish()`.

They are below the current span, in the current trace. Where nobody traces they cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from ..core.errors import UserError
from .base import NoSpan
from .base import Span as TracerSpan
from .span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
    TaskSpanData,
    TurnSpanData,
)
from .spans import Span
from .spans import get_current_span as get_current_span
from .trace import Trace, get_current_trace, tracer_for
from .trace import trace as trace

TSpanData = TypeVar("TSpanData", bound=SpanData)
Parent = Trace | Span[Any] | None


@runtime_checkable
class RecordTracer(Protocol):
    """A tracer that tells others of the very object that the user holds."""

    def start_as(self, record: Span[Any], parent: TracerSpan | str | None) -> TracerSpan:
        """A new span of the user's own."""
        ...


def agent_span(
    name: str,
    handoffs: list[str] | None = None,
    tools: list[str] | None = None,
    output_type: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[AgentSpanData]:
    """A span for an agent at work, for agents that Keyturn does not run: its own have theirs.

    >>> with agent_span("Support", tools=["refund"]) as span:
    ...     span.span_data.tools
    ['refund']
    """
    return _span(AgentSpanData(name, handoffs, tools, output_type), span_id, parent, disabled)


def custom_span(
    name: str,
    data: Mapping[str, Any] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[CustomSpanData]:
    """A span of your own.

    `data` becomes attributes, as does what you `tell` it later.

    >>> with custom_span("look up", {"shop.order": 17}) as span:
    ...     span.tell({"shop.found": True})
    """
    return _span(CustomSpanData(name, dict(data or {})), span_id, parent, disabled)


def function_span(
    name: str,
    input: str | None = None,
    output: object = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[FunctionSpanData]:
    """A span for a function that works like a tool.

    What you give as input and output is told as it is.

    >>> with function_span("look up", input='{"order": 17}') as span:
    ...     span.span_data.output = "found"
    >>> span.span_data.export()["output"]
    'found'
    """
    return _span(FunctionSpanData(name, input, output), span_id, parent, disabled)


def generation_span(
    input: Sequence[Mapping[str, Any]] | None = None,
    output: Sequence[Mapping[str, Any]] | None = None,
    model: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    **place: Any,
) -> Span[GenerationSpanData]:
    """A span for a question to a model that you ask by yourself.

    `span_id`, `parent` and `disabled` as everywhere.

    >>> with generation_span(model="gpt-5") as span:
    ...     span.span_data.usage = {"input_tokens": 9, "output_tokens": 2}
    """
    return _span(GenerationSpanData(input, output, model, model_config, usage), **_placed(place))


def response_span(
    response: object = None, span_id: str | None = None, parent: Parent = None, disabled: bool = False
) -> Span[ResponseSpanData]:
    """A span for a question to the Responses API that you ask by yourself.

    >>> with response_span() as span:
    ...     span.span_data.response_id is None
    True
    """
    return _span(ResponseSpanData(response), span_id, parent, disabled)


def handoff_span(
    from_agent: str | None = None,
    to_agent: str | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[HandoffSpanData]:
    """A span for a handoff between agents that Keyturn does not run.

    >>> with handoff_span("Triage", "Refunds") as span:
    ...     span.span_data.to_agent
    'Refunds'
    """
    return _span(HandoffSpanData(from_agent, to_agent), span_id, parent, disabled)


def guardrail_span(
    name: str,
    triggered: bool = False,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[GuardrailSpanData]:
    """A span for a check of your own.

    >>> with guardrail_span("no_secrets") as span:
    ...     span.span_data.triggered = True
    """
    return _span(GuardrailSpanData(name, triggered), span_id, parent, disabled)


def mcp_tools_span(
    server: str | None = None,
    result: list[str] | None = None,
    span_id: str | None = None,
    parent: Parent = None,
    disabled: bool = False,
) -> Span[MCPListToolsSpanData]:
    """A span for a listing of an MCP server's tools that you ask for by yourself.

    >>> with mcp_tools_span("files") as span:
    ...     span.span_data.result = ["read"]
    """
    return _span(MCPListToolsSpanData(server, result), span_id, parent, disabled)


def task_span(
    name: str, span_id: str | None = None, parent: Parent = None, disabled: bool = False
) -> Span[TaskSpanData]:
    """A span for a piece of work that several runs belong to.

    >>> with task_span("nightly report") as span:
    ...     span.span_data.name
    'nightly report'
    """
    return _span(TaskSpanData(name), span_id, parent, disabled)


def turn_span(
    turn: int, agent_name: str, span_id: str | None = None, parent: Parent = None, disabled: bool = False
) -> Span[TurnSpanData]:
    """A span for one turn of an agent that Keyturn does not run.

    >>> with turn_span(1, "Support") as span:
    ...     span.span_data.turn
    1
    """
    return _span(TurnSpanData(turn, agent_name), span_id, parent, disabled)


def _placed(given: Mapping[str, Any]) -> dict[str, Any]:
    for name in given.keys() - {"span_id", "parent", "disabled"}:
        raise TypeError(f"generation_span has no argument {name!r}")
    return {"span_id": given.get("span_id"), "parent": given.get("parent"), "disabled": given.get("disabled", False)}


def _span(data: TSpanData, span_id: str | None, parent: Parent, disabled: bool) -> Span[TSpanData]:
    given: object = parent
    if given is not None and not isinstance(given, Trace | Span):
        raise UserError(f"the parent of a span is a Trace or a Span, not {type(given).__name__}")

    def begin(record: Span[Any]) -> TracerSpan:
        return _begun(record, parent)

    return Span(data, None if disabled else begin, span_id=span_id)


def _begun(record: Span[Any], parent: Parent) -> TracerSpan:
    """The span of the tracer there is: that of the trace it is in, else the process's own."""
    trace = parent if isinstance(parent, Trace) else get_current_trace()
    if trace is not None and trace.disabled:
        return NoSpan()
    tracer = tracer_for() if trace is None else trace.tracer
    above = None if parent is None else parent.span if isinstance(parent, Trace) else parent.seam
    if tracer is None:
        return NoSpan()
    if isinstance(tracer, RecordTracer):
        return tracer.start_as(record, above)
    return tracer.start(record.span_data.span_name, record.span_data.attributes(), parent=above)
