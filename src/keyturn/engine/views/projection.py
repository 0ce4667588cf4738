"""Project a log to what its reader sees: items, replies, what guardrails said, and the requests that wait.

Everything here reads; nothing decides. A projection is fed steps in order, so a stream and a finished
result see the same run with the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ...agents.agent import Agent
from ...core import events as ev
from ...core.call_ids import call_id
from ...core.items import Item, own_copy
from ...core.request import request_of, waiting_calls
from ...core.run import Call, Run
from ...core.shown_items import shown_call
from ...core.usage import NOTHING
from ...models.base import ModelResponse, Usage
from ...tools.base import Tool
from ..run.agents import AgentGraph
from ..run.open_run import OpenRun
from .items import HandoffOutputItem, RunItem, ToolApprovalItem, added_item, reply_item, result_item


class Projection:
    """Projects the items of one frame, step by step.

    Where `before` is the run as it was before the step, the requests that people decided are among the items.
    """

    def __init__(self, live: OpenRun, graph: AgentGraph, frame: str = ev.ROOT) -> None:
        self.graph = graph
        self.before: Run | None = None
        self._returned = live.returned
        self.frame = frame
        self.path = ""
        self.turn = 0
        self.replies: list[ModelResponse] = []
        self.reports: list[tuple[str, ev.Report]] = []
        self.input: list[Item] = []
        # The calls without a result, and the agent that made each.
        self._open: dict[str, Agent[Any]] = {}
        self._added: list[Item] = []
        self._barrier = True

    @property
    def agent(self) -> Agent[Any]:
        """Return the agent at work in the frame."""
        return self.graph.agent(self.path)

    def feed(self, step: ev.Step) -> list[RunItem]:
        """Give the items that a step adds, in the order in which they happened."""
        made: list[RunItem] = []
        for event in step.events:
            read = _READ.get(type(event))
            if read is not None:
                made += read(self, event)
            elif isinstance(event, ev.HandedOff) and event.frame == self.frame:
                if made:
                    made.append(self.handed_off(event, made.pop()))
                else:  # nobody called for it: a session changed its agent
                    self.path = event.agent
        if self._added and not (self._open and self._barrier):
            made += [added_item(self.agent, item) for item in self._added]
            self._added = []
        return made

    def opened(self, event: ev.FrameOpened) -> list[RunItem]:
        """Note that an agent begins, here or in a frame that is none of ours."""
        if event.frame == self.frame:
            self.path = event.agent
            self._barrier = event.barrier
            self.input = [own_copy(item) for item in event.items if isinstance(item, dict)]
        return []

    def replied(self, event: ev.ReplyRecorded) -> list[RunItem]:
        """Return the model's items, and the results of calls that get no further."""
        if event.frame != self.frame:
            return []
        self.turn += 1
        usage = Usage.from_counts(event.usage, event.model) if event.usage != NOTHING else Usage()
        self.replies.append(
            ModelResponse(own_copy(event.output), usage, event.response_id, event.request_id, event.model)
        )
        kinds = {proposal.item: proposal.kind for proposal in event.proposals}
        made = [
            reply_item(self.agent, raw, handoff=kinds.get(index) == "handoff") for index, raw in enumerate(event.output)
        ]
        if self._barrier:  # what is open still was dropped with an earlier frame of that call
            self._open.clear()
        self._open |= {call_id(self.frame, self.turn, index): self.agent for index in range(len(event.proposals))}
        for index, proposal in enumerate(event.proposals):
            made += self._refused(call_id(self.frame, self.turn, index), proposal)
        return made

    def voided(self, event: ev.CallVoided) -> list[RunItem]:
        """Add the result of a call that was proposed anew and refused."""
        return self._refused(event.call, event.proposal)

    def _refused(self, call: str, proposal: ev.Proposal) -> list[RunItem]:
        if proposal.refused is None or call not in self._open:
            return []
        return [result_item(self._open.pop(call), proposal.refused, own_copy(proposal.refused.get("output")))]

    def decided(self, event: ev.CallDecided) -> list[RunItem]:
        """Add the request that a person decided, where it came up in this frame."""
        run, label = self.before, event.decision.call
        call = run.calls.get(label) if run is not None and label in self._open else None
        if run is None or call is None or not by_person(event):
            return []
        return [approval_item(run, call, self._open[label], None)]

    def finished(self, event: ev.CallFinished) -> list[RunItem]:
        """Add a call's result."""
        if event.call not in self._open:
            return []
        value = self._returned(event.call, event.item, event.value)
        return [result_item(self._open.pop(event.call), event.item, value)]

    def handed_off(self, event: ev.HandedOff, result: RunItem) -> RunItem:
        """Replace the result just added by the handoff that it was."""
        source = self.agent
        self.path = event.agent
        return HandoffOutputItem(source, result.raw_item, source_agent=source, target_agent=self.agent)

    def added(self, event: ev.InputAdded) -> list[RunItem]:
        """Hold an added message until the results before it are there."""
        if event.frame == self.frame:
            self._added += event.items
        return []

    def reported(self, event: ev.GuardrailReported) -> list[RunItem]:
        """Note guardrail reports."""
        self.reports += [(event.on, report) for report in event.reports]
        return []


_READ: dict[type[Any], Callable[[Projection, Any], list[RunItem]]] = {
    ev.FrameOpened: Projection.opened,
    ev.ReplyRecorded: Projection.replied,
    ev.CallVoided: Projection.voided,
    ev.CallDecided: Projection.decided,
    ev.CallFinished: Projection.finished,
    ev.InputAdded: Projection.added,
    ev.GuardrailReported: Projection.reported,
}


_COUNTED = ev.ReplyRecorded | ev.ReplyRefused | ev.HistoryCompacted


def used(steps: Iterable[ev.Step]) -> Usage:
    """Return the usage of the replies in these steps, those that were refused included."""
    counted = (event for step in steps for event in step.events if isinstance(event, _COUNTED))
    return Usage.of([(event.model, event.usage) for event in counted if event.usage != NOTHING])


def by_person(event: object) -> bool:
    """Return whether an event is the decision of a person."""
    return isinstance(event, ev.CallDecided) and event.decision.via == "person"


def approval_item(run: Run, call: Call, agent: Agent[Any], tool: Tool | None) -> ToolApprovalItem:
    """Make the item that people decide on, of a waiting call, with its tool where it is at hand."""
    return ToolApprovalItem(
        agent,
        shown_call(call),
        tool_name=call.proposal.name,
        request=request_of(run, call),
        text=call.text,
        tool=tool,
    )


class Interrupted(Protocol):
    """Has items for the calls that wait."""

    @property
    def interruptions(self) -> list[ToolApprovalItem]:
        """Return them, in the order in which the model made the calls."""
        ...


def requests_of(run: Run, graph: AgentGraph, tools: dict[str, Any]) -> list[ToolApprovalItem]:
    """Every waiting call, in the order in which the model made them."""
    return [approval_item(run, call, graph.agent(call.agent), tools.get(call.id)) for call in waiting_calls(run)]
