"""From a log to what its reader sees: items, replies, and the requests that wait.

Everything here reads; nothing decides. A projection is fed steps in order, so a stream and a finished
result see the same run with the same code.
"""

from __future__ import annotations

from typing import Any

from ..agents.agent import Agent
from ..core import events as ev
from ..core.items import Item
from ..core.preview import Json, Preview, redact
from ..core.run import Call, Run, call_digest, request_id
from ..models.base import ModelResponse, Usage
from ..tools.base import Tool
from .graph import Graph
from .items import HandoffOutputItem, RunItem, ToolApprovalItem, ToolCallOutputItem, reply_item


class Projection:
    """The items of one frame, step by step."""

    def __init__(self, graph: Graph, frame: str = ev.ROOT) -> None:
        self.graph = graph
        self.frame = frame
        self.path = ""
        self.turn = 0
        self.replies: list[ModelResponse] = []
        self.reports: list[tuple[str, ev.Report]] = []
        self._proposals: dict[str, tuple[Item, ev.Proposal]] = {}

    @property
    def agent(self) -> Agent[Any]:
        """The agent at work in the frame."""
        return self.graph.agent(self.path)

    def feed(self, step: ev.Step) -> list[RunItem]:
        """The items that a step adds, in the order in which they happened."""
        made: list[RunItem] = []
        for index, event in enumerate(step.events):
            if isinstance(event, ev.ReplyRecorded):
                if event.frame == self.frame:
                    made += self._reply(event)
            elif isinstance(event, ev.CallFinished):
                after = step.events[index + 1] if index + 1 < len(step.events) else None
                if event.call in self._proposals and not isinstance(after, ev.HandedOff):
                    made.append(self._output(event))
            elif isinstance(event, ev.HandedOff):
                if event.frame == self.frame:
                    made.append(self._handed_off(event, step.events[index - 1]))
            elif isinstance(event, ev.FrameOpened):
                if event.frame == self.frame:
                    self.path = event.agent
            elif isinstance(event, ev.GuardrailReported):
                self.reports += [(event.on, report) for report in event.reports]
        return made

    def _reply(self, event: ev.ReplyRecorded) -> list[RunItem]:
        self.turn += 1
        usage = Usage.from_counts(event.usage) if event.usage else Usage()
        self.replies.append(ModelResponse(list(event.output), usage, event.response_id, event.request_id))
        kinds = {proposal.item: proposal for proposal in event.proposals}
        self._proposals = {
            f"{self.frame}/{self.turn}.{index}": (event.output[proposal.item], proposal)
            for index, proposal in enumerate(event.proposals)
        }
        agent = self.agent
        made = [
            reply_item(agent, raw, handoff=index in kinds and kinds[index].kind == "handoff")
            for index, raw in enumerate(event.output)
        ]
        for _raw, proposal in self._proposals.values():
            if proposal.refused is not None:
                made.append(ToolCallOutputItem(agent, proposal.refused, output=proposal.refused.get("output")))
        return made

    def _output(self, event: ev.CallFinished) -> RunItem:
        value = event.value if event.value is not None else event.item.get("output")
        return ToolCallOutputItem(self.agent, event.item, output=value)

    def _handed_off(self, event: ev.HandedOff, finished: Any) -> RunItem:
        source, self.path = self.agent, event.agent
        return HandoffOutputItem(source, finished.item, source_agent=source, target_agent=self.agent)


def approval_item(run: Run, call: Call, agent: Agent[Any], tool: Tool | None) -> ToolApprovalItem:
    """A waiting call as the object that people decide on."""
    params = call.params
    preview = tool.preview(params) if tool is not None else Preview((Json(params),))
    secrets = tool.secrets if tool is not None else ()
    return ToolApprovalItem(
        agent,
        call.raw,
        tool_name=call.proposal.name,
        text=call.text,
        params=redact(params, secrets) if secrets else params,
        reason=call.reason,
        digest=call_digest(run, call),
        kind=call.kind,
        call=call.id,
        request_id=request_id(run, call.id),
        run_id=run.id,
        expires_at=call.expires_at,
        difference=_difference(run, call),
        tool=tool,
        preview=preview,
    )


def _difference(run: Run, call: Call) -> Any:
    """What changed about the tool since it was last shown: the old and the new description of it."""
    if not call.shown or call.shown == call.proposal.tool:
        return None
    return {"before": run.tools.get(call.shown), "after": run.tools.get(call.proposal.tool)}
