"""Project a frame's run to stream events, in the names and the order that users know.

Streaming is a subscription to the loop, never a second loop. A feed turns steps and signals into events and hands
each to its sink at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, cast

from ...agents.agent import Agent
from ...core import events as ev
from ...core.errors import UserError
from ...core.items import RawItem
from ...core.nested_agent import NestedAgent
from ...support.user_code import answer_of
from ..run.open_run import OpenRun
from .items import AddedInputItem, RunItem, ToolApprovalItem
from .projection import Projection

ItemEventName = Literal[
    "message_output_created",
    "reasoning_item_created",
    "tool_called",
    "tool_output",
    "handoff_requested",
    "handoff_occured",
    "mcp_approval_requested",
    "mcp_approval_response",
    "mcp_list_tools",
    "tool_search_called",
    "tool_search_output_created",
    "compaction_item",
]
NAMES: dict[str, ItemEventName] = {
    "message_output_item": "message_output_created",
    "reasoning_item": "reasoning_item_created",
    "tool_call_item": "tool_called",
    "tool_call_output_item": "tool_output",
    "handoff_call_item": "handoff_requested",
    "handoff_output_item": "handoff_occured",
    "mcp_approval_request_item": "mcp_approval_requested",
    "mcp_approval_response_item": "mcp_approval_response",
    "mcp_list_tools_item": "mcp_list_tools",
    "tool_search_call_item": "tool_search_called",
    "tool_search_output_item": "tool_search_output_created",
}


@dataclass(slots=True)
class RawResponsesStreamEvent:
    """Carries an event of the model's stream, in the shape of the Responses API, whatever the provider.

    >>> RawResponsesStreamEvent(data={"type": "response.completed"}).type
    'raw_response_event'
    """

    data: Any
    type: Literal["raw_response_event"] = "raw_response_event"


@dataclass(slots=True)
class RunItemStreamEvent:
    """Carries a new item of the run: `name` says how it came to be, `item` is it.

    >>> from keyturn import ToolCallItem
    >>> RunItemStreamEvent("tool_called", ToolCallItem(None, {"type": "function_call"})).type
    'run_item_stream_event'
    """

    name: ItemEventName
    item: RunItem
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


@dataclass(slots=True)
class AgentUpdatedStreamEvent:
    """Says that another agent is at work now.

    >>> AgentUpdatedStreamEvent(Agent("desk")).type
    'agent_updated_stream_event'
    """

    new_agent: Agent[Any]
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


@dataclass(slots=True)
class ApprovalRequestedStreamEvent:
    """Says that a call waits for somebody; the run pauses once nothing else can be done.

    >>> ApprovalRequestedStreamEvent(None).type
    'approval_requested_stream_event'
    """

    item: ToolApprovalItem
    type: Literal["approval_requested_stream_event"] = "approval_requested_stream_event"


# How many turns of the event loop a reader may do nothing for, until the run goes on without it.
_PATIENCE = 8
_PASSING_ON = 3

StreamEvent = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent | ApprovalRequestedStreamEvent
Sink = Callable[[StreamEvent], None]


@dataclass(frozen=True, slots=True)
class Delta:
    """A raw event of a model's stream."""

    frame: str
    event: Any


@dataclass(frozen=True, slots=True)
class AgentAtWork:
    """An agent begins to work in a frame."""

    frame: str
    agent: Any


def item_event(item: RunItem) -> RunItemStreamEvent:
    """Return the event of an item."""
    return RunItemStreamEvent(NAMES.get(item.type, cast("ItemEventName", item.type)), item)


class AgentToolStreamEvent(TypedDict):
    """What the `on_stream` of `Agent.as_tool` gets: an event of the nested agent, that agent, and the call it answers.

    >>> def on_stream(told: AgentToolStreamEvent) -> None:
    ...     print(told["agent"].name, told["event"].type)
    """

    event: StreamEvent
    agent: Any
    tool_call: Any


class Feed:
    """Hears what happens in a run, or in a frame of it; a feed that does not care for something does nothing."""

    def catch_up(self, steps: list[ev.Step]) -> None:
        """Take in what happened before anybody listened."""

    def step(self, step: ev.Step) -> None:
        """Hear a step, just after it is recorded."""

    def signal(self, signal: Delta | AgentAtWork) -> None:
        """Hear a signal that is not recorded."""

    @property
    def full(self) -> bool:
        """Return whether more events wait than the listener allows (backpressure)."""
        return False

    async def room(self) -> None:
        """Wait until the listener catches up, or raise where it does not (backpressure)."""

    async def caught_up(self) -> None:
        """Let a reader deal with the events so far, who may want the run to stop before anything else begins."""

    async def drained(self) -> None:
        """Wait until every event so far was read."""


class EventFeed(Feed):
    """Sends one frame's events to a sink as they happen."""

    def __init__(self, live: OpenRun, frame: str, sink: Sink, unread: Callable[[], int] = lambda: 0) -> None:
        self.projection = Projection(live, live.graph, frame)
        self._sink = sink
        self._unread = unread

    def catch_up(self, steps: list[ev.Step]) -> None:
        """Fold what happened before anybody listened, without events."""
        for step in steps:
            self.projection.feed(step)

    def step(self, step: ev.Step) -> None:
        """Send the items that a step adds."""
        for item in self.projection.feed(step):
            if not isinstance(item, AddedInputItem):
                self._sink(item_event(item))

    def signal(self, signal: Delta | AgentAtWork) -> None:
        """Send a signal that is not recorded."""
        if isinstance(signal, Delta):
            event = cast("dict[str, Any]", signal.event)
            self._sink(RawResponsesStreamEvent(RawItem(event) if type(event) is dict else event))
        else:
            self._sink(AgentUpdatedStreamEvent(signal.agent))

    async def caught_up(self) -> None:
        """Let a reader deal with the events so far, who may want the run to stop before anything else begins.

        One that does nothing for a few turns of the event loop is busy elsewhere and is not waited for. One that has
        read all may have passed the last on to somebody else, who gets a turn as well.
        """
        left, idle = self._unread(), 0
        while left and idle < _PATIENCE:
            await asyncio.sleep(0)
            now = self._unread()
            idle = idle + 1 if now >= left else 0
            left = now
            if not left:
                for _ in range(_PASSING_ON):
                    await asyncio.sleep(0)


class Tap(EventFeed):
    """Gives a nested agent's events to its tool's `on_stream`, in order, without blocking the loop."""

    def __init__(self, live: OpenRun, frame: str, nested: NestedAgent, tool_call: Any) -> None:
        super().__init__(live, frame, self._put)
        self._callback: Any = nested.on_stream
        self._most = nested.on_stream_max_pending_events
        self._tool_call = tool_call
        self._waiting: deque[AgentToolStreamEvent] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._left = False

    @property
    def full(self) -> bool:
        return self._most is not None and len(self._waiting) > self._most

    async def room(self) -> None:
        await asyncio.sleep(0)
        if self.full:
            self._left = True
            self._waiting.clear()
            raise UserError(
                f"on_stream has fallen behind: more than {self._most} events are queued; handle them faster, or give "
                f"as_tool another on_stream_max_pending_events, None for no limit"
            )

    def _put(self, event: StreamEvent) -> None:
        if self._left:
            return
        self._waiting.append({"event": event, "agent": self.projection.agent, "tool_call": self._tool_call})
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while self._waiting:
            try:
                await answer_of(self._callback, self._waiting.popleft())
            except Exception as error:  # whoever listens badly harms nobody: the run goes on
                told = {"message": "on_stream raised while a nested agent was listened to", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)

    async def drained(self) -> None:
        if self._worker is not None:
            await self._worker
