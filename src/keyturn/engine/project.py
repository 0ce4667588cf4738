"""From a log to what its reader sees: items, replies, and the requests that wait.

Everything here reads; nothing decides. A projection is fed steps in order, so a stream and a finished
result see the same run with the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..agents.agent import Agent
from ..core import events as ev
from ..core.digest import canonical
from ..core.items import Item, own_copy
from ..core.preview import Preview, redact
from ..core.run import Call, Run, call_digest, request_id
from ..models.base import ModelResponse, Usage
from ..tools.base import Tool, plain_preview
from .graph import Graph
from .items import HandoffOutputItem, RunItem, ToolApprovalItem, added_item, reply_item, result_item


class Projection:
    """The items of one frame, step by step."""

    def __init__(self, graph: Graph, frame: str = ev.ROOT) -> None:
        self.graph = graph
        self.frame = frame
        self.path = ""
        self.turn = 0
        self.replies: list[ModelResponse] = []
        self.reports: list[tuple[str, ev.Report]] = []
        self.input: list[Item] = []
        self._open: set[str] = set()
        self._added: list[Item] = []

    @property
    def agent(self) -> Agent[Any]:
        """The agent at work in the frame."""
        return self.graph.agent(self.path)

    def feed(self, step: ev.Step) -> list[RunItem]:
        """The items that a step adds, in the order in which they happened."""
        made: list[RunItem] = []
        for event in step.events:
            read = _READ.get(type(event))
            if read is not None:
                read(self, event, made)
        if self._added and not self._open:
            made += [added_item(self.agent, item) for item in self._added]
            self._added = []
        return made

    def opened(self, event: ev.FrameOpened, _made: list[RunItem]) -> None:
        """An agent begins, here or in a frame that is none of ours."""
        if event.frame == self.frame:
            self.path, self.input = event.agent, [item for item in event.items if isinstance(item, dict)]

    def replied(self, event: ev.ReplyRecorded, made: list[RunItem]) -> None:
        """The model's items, and the results of calls that get no further."""
        if event.frame != self.frame:
            return
        self.turn += 1
        usage = Usage.from_counts(event.usage, event.model) if event.usage else Usage()
        self.replies.append(
            ModelResponse(own_copy(event.output), usage, event.response_id, event.request_id, event.model)
        )
        kinds = {proposal.item: proposal.kind for proposal in event.proposals}
        made += [
            reply_item(self.agent, raw, handoff=kinds.get(index) == "handoff") for index, raw in enumerate(event.output)
        ]
        self._open = {f"{self.frame}/{self.turn}.{index}" for index in range(len(event.proposals))}
        for index, proposal in enumerate(event.proposals):
            self._refused(f"{self.frame}/{self.turn}.{index}", proposal, made)

    def voided(self, event: ev.CallVoided, made: list[RunItem]) -> None:
        """A call proposed anew may be refused now."""
        self._refused(event.call, event.proposal, made)

    def _refused(self, call: str, proposal: ev.Proposal, made: list[RunItem]) -> None:
        if proposal.refused is not None and call in self._open:
            self._open.discard(call)
            made.append(result_item(self.agent, proposal.refused, proposal.refused.get("output")))

    def finished(self, event: ev.CallFinished, made: list[RunItem]) -> None:
        """A call has its result."""
        if event.call in self._open:
            self._open.discard(event.call)
            value = event.value if event.value is not None else event.item.get("output")
            made.append(result_item(self.agent, event.item, value))

    def handed_off(self, event: ev.HandedOff, made: list[RunItem]) -> None:
        """The result just read was that of a handoff."""
        if event.frame == self.frame:
            source, result, self.path = self.agent, made.pop(), event.agent
            made.append(HandoffOutputItem(source, result.raw_item, source_agent=source, target_agent=self.agent))

    def added(self, event: ev.InputAdded, _made: list[RunItem]) -> None:
        """What was added is read after the results that are still to come."""
        if event.frame == self.frame:
            self._added += event.items

    def reported(self, event: ev.GuardrailReported, _made: list[RunItem]) -> None:
        """Guardrails said something."""
        self.reports += [(event.on, report) for report in event.reports]


_READ: dict[type[Any], Callable[[Projection, Any, list[RunItem]], None]] = {
    ev.FrameOpened: Projection.opened,
    ev.ReplyRecorded: Projection.replied,
    ev.CallVoided: Projection.voided,
    ev.CallFinished: Projection.finished,
    ev.HandedOff: Projection.handed_off,
    ev.InputAdded: Projection.added,
    ev.GuardrailReported: Projection.reported,
}


def used(steps: Iterable[ev.Step]) -> Usage:
    """What the replies in these steps used, those that were refused included."""
    counted = (
        event for step in steps for event in step.events if isinstance(event, ev.ReplyRecorded | ev.ReplyRefused)
    )
    return Usage.of([(event.model, event.usage) for event in counted if event.usage])


def approval_item(run: Run, call: Call, agent: Agent[Any], tool: Tool | None) -> ToolApprovalItem:
    """A waiting call as the object that people decide on."""
    params = call.params
    secrets = tool.secrets if tool is not None else ()
    shown = redact(params, secrets) if secrets else params
    return ToolApprovalItem(
        agent,
        {**call.raw, "arguments": canonical(shown)} if secrets else call.raw,
        tool_name=call.proposal.name,
        text=call.text,
        params=shown,
        reason=call.reason,
        digest=call_digest(run, call),
        kind=call.kind,
        call=call.id,
        request_id=request_id(run, call.id),
        run_id=run.id,
        expires_at=call.expires_at,
        difference=_difference(run, call),
        tool=tool,
        preview=_preview(call, tool, own_copy(params)),
        requests=call.need.requests if call.need is not None else None,
    )


def _preview(call: Call, tool: Tool | None, params: Any) -> Preview:
    """What people are shown: what was recorded for them, else what the tool makes of the arguments."""
    if call.kind == "external" and call.need is not None:
        return call.need.preview or plain_preview(call.need.requests)
    if call.preview is not None:
        return call.preview
    made = tool.preview(params) if tool is not None and not tool.looks else None
    return made if isinstance(made, Preview) else plain_preview(params, tool.secrets if tool is not None else ())


def _difference(run: Run, call: Call) -> Any:
    """What changed about the tool since it was last shown: the old and the new description of it."""
    if not call.shown or call.shown == call.proposal.tool:
        return None
    return {"before": run.tools.get(call.shown), "after": run.tools.get(call.proposal.tool)}
