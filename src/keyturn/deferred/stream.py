"""Stream a run in the way of Pydantic AI: texts as they come, and events; a subscription to the one loop."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal

from ..core.errors import UserError
from ..engine.runner import Runner
from ..engine.stream import RunResultStreaming
from ..engine.views.event_stream import ApprovalRequestedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent
from .conversation import messages_of
from .deciding import requests_of
from .messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from .prepare import PreparedRun
from .requests import DeferredToolRequests
from .result import AgentRunResult, RunUsage


@dataclass(slots=True)
class TextPartDelta:
    """Holds a piece of a text.

    >>> TextPartDelta("Hel").content_delta
    'Hel'
    """

    content_delta: str
    part_delta_kind: Literal["text"] = "text"


@dataclass(slots=True)
class PartDeltaEvent:
    """Says that the model wrote a piece.

    >>> PartDeltaEvent(TextPartDelta("Hel")).event_kind
    'part_delta'
    """

    delta: TextPartDelta
    index: int = 0
    event_kind: Literal["part_delta"] = "part_delta"


@dataclass(slots=True)
class FunctionToolCallEvent:
    """Says that the model made a call.

    >>> FunctionToolCallEvent(ToolCallPart("pay", {}, "c1")).event_kind
    'function_tool_call'
    """

    part: ToolCallPart
    event_kind: Literal["function_tool_call"] = "function_tool_call"


@dataclass(slots=True)
class FunctionToolResultEvent:
    """Says that a call has its result.

    >>> FunctionToolResultEvent(ToolReturnPart("pay", "paid", "c1")).event_kind
    'function_tool_result'
    """

    part: ToolReturnPart
    event_kind: Literal["function_tool_result"] = "function_tool_result"


@dataclass(slots=True)
class DeferredToolRequestsEvent:
    """Says that calls wait, before a handler is asked about them.

    >>> DeferredToolRequestsEvent(DeferredToolRequests()).event_kind
    'deferred_tool_requests'
    """

    requests: DeferredToolRequests
    event_kind: Literal["deferred_tool_requests"] = "deferred_tool_requests"


@dataclass(slots=True)
class AgentRunResultEvent:
    """Carries the result; it is the last event.

    >>> AgentRunResultEvent(None).event_kind
    'agent_run_result'
    """

    result: Any
    event_kind: Literal["agent_run_result"] = "agent_run_result"


class StreamedRunResult:
    """Holds a run that goes on while it is read: texts, then the output and the messages.

    >>> import asyncio
    >>> from keyturn.deferred import Agent
    >>> from keyturn.testing import ScriptedModel
    >>> async def main():
    ...     async with Agent(ScriptedModel(["hello"])).run_stream("hi") as result:
    ...         return await result.get_output()
    >>> asyncio.run(main())
    'hello'
    """

    __slots__ = ("__weakref__", "_before", "_raw", "_result", "_streams")

    def __init__(self, before: PreparedRun) -> None:
        self._before = before
        self._streams: list[RunResultStreaming] = []
        self._result: AgentRunResult[Any] | None = None
        self._raw: AsyncIterator[Any] | None = None

    async def events(self) -> AsyncIterator[Any]:
        """Yield the events of the run and, before a handler is asked, the requests; it can be read once."""
        given = self._before.input
        while True:
            stream = Runner.run_streamed(self._before.agent, given, **self._before.options)
            self._streams.append(stream)
            async for event in stream.stream_events():
                yield event
            result = await stream.run_loop_task
            if result.interruptions:
                yield DeferredToolRequestsEvent(requests_of(result.to_state()))
            state = await self._before.decided_inline(result)
            if state is None:
                self._before.count(result)
                self._result = AgentRunResult(result, self._before.messages)
                return
            given = state

    def _read(self) -> AsyncIterator[Any]:
        if self._raw is None:
            self._raw = self.events()
        return self._raw

    async def stream_text(self, *, delta: bool = False, debounce_by: float | None = None) -> AsyncIterator[str]:
        """Yield the text so far, or with `delta` each piece of it; pieces within `debounce_by` seconds are one."""
        wait = _seconds(debounce_by)
        whole = held = ""
        last = 0.0
        async for event in self._read():
            held += _piece(event)
            if held and monotonic() - last >= wait:
                whole += held
                yield held if delta else whole
                held, last = "", monotonic()
        if held:
            yield held if delta else whole + held

    async def stream_output(self, *, debounce_by: float | None = None) -> AsyncIterator[Any]:
        """Yield the text so far, and at last the output."""
        async for text in self.stream_text(debounce_by=debounce_by):
            yield text
        yield await self.get_output()

    async def get_output(self) -> Any:
        """Read to the end, and return the output."""
        async for _event in self._read():
            pass
        return self.result().output

    def result(self) -> AgentRunResult[Any]:
        """Return the result of a run that was read to its end."""
        if self._result is None:
            raise UserError("this run has not been read to its end: await get_output() first")
        return self._result

    @property
    def is_complete(self) -> bool:
        """Return whether the run was read to its end."""
        return self._result is not None

    @property
    def output(self) -> Any:
        """Return the output of a run that was read to its end."""
        return self.result().output

    @property
    def usage(self) -> RunUsage:
        """Return what the run has used."""
        return self.result().usage

    @property
    def response(self) -> ModelResponse:
        """Return the model's last reply."""
        return self.result().response

    def all_messages(self) -> list[ModelMessage]:
        """Return the conversation; the last message carries the sealed state of the run."""
        return self.result().all_messages()

    def new_messages(self) -> list[ModelMessage]:
        """Return what the given `message_history` had not."""
        return self.result().new_messages()

    def all_messages_json(self) -> bytes:
        """Return `all_messages()` as JSON."""
        return self.result().all_messages_json()

    async def aclose(self) -> None:
        """Stop a run that nobody reads any more."""
        if self._result is None and self._streams:
            self._streams[-1].cancel()
        if self._raw is not None:
            await self._raw.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # it is the generator of `events`


class DeferredEventStream:
    """Yields the events of a run; it is read as it is, or by `async with`, which stops a run that is left.

    >>> hasattr(DeferredEventStream, "__aiter__"), hasattr(DeferredEventStream, "__aenter__")
    (True, True)
    """

    def __init__(self, made: AsyncGenerator[Any]) -> None:
        self._made = made

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._made

    async def __anext__(self) -> Any:
        return await anext(self._made)

    async def __aenter__(self) -> AsyncIterator[Any]:
        return self._made

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop a run that nobody reads any more."""
        await self._made.aclose()


def _seconds(given: object) -> float:
    if given is None:
        return 0.0
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given < math.inf:
        raise UserError(f"debounce_by is a number of seconds or None, not {given!r}")
    return float(given)


def _piece(event: object) -> str:
    data = event.data if isinstance(event, RawResponsesStreamEvent) else None
    return data.delta if data is not None and data.type == "response.output_text.delta" else ""


async def events_of(run: StreamedRunResult) -> AsyncGenerator[Any]:
    """Yield the events of a run in the words of Pydantic AI."""
    named: dict[str, str] = {}
    raw = run.events()
    try:
        async for event in raw:
            made = _event(event, named)
            if made is not None:
                yield made
        yield AgentRunResultEvent(run.result())
    finally:
        await raw.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # it is the generator of `events`


def _event(event: object, named: dict[str, str]) -> Any:
    if isinstance(event, DeferredToolRequestsEvent):
        return event
    if piece := _piece(event):
        return PartDeltaEvent(TextPartDelta(piece))
    if not isinstance(event, RunItemStreamEvent) or isinstance(event, ApprovalRequestedStreamEvent):
        return None
    label = str(event.item.raw_item.get("call_id") or "")
    if event.name in ("tool_called", "handoff_requested"):
        part: Any = messages_of([event.item.to_input_item()])[0].parts[0]
        named[label] = part.tool_name
        return FunctionToolCallEvent(part)
    if event.name in ("tool_output", "handoff_occured"):
        return FunctionToolResultEvent(ToolReturnPart(named.get(label, ""), event.item.raw_item.get("output"), label))
    return None
