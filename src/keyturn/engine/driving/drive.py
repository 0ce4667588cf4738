"""What the loop and its effects share: the writer, and looking up what a frame runs under."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...agents.agent_base import is_enabled
from ...agents.context import LetRun, ToolContext
from ...agents.handoff import handoffs_of
from ...core import commands as cm
from ...core import events as ev
from ...core.errors import ToolMissing
from ...core.items import RawItem, own_copy
from ...core.past import Totals
from ...core.records import Report
from ...core.run import Call, Frame, request_id
from ...tools.base import Resumed, Tool
from ..run.frame_settings import FrameSettings, Toolset
from ..run.open_run import OpenRun
from ..views.decisions_by_label import decision_on
from ..views.event_stream import Tap
from ..views.signals import AgentAtWork, Delta
from .usage_limits import UsageMeter
from .writer import Writer


class Drive(Writer):
    """One drive of one run, from where it stands until only people can move it."""

    def __init__(self, live: OpenRun, scope: FrameSettings) -> None:
        super().__init__(live.log, live.journal, lambda: live.clock())
        self.live = live
        self.agent = live.graph.agent
        self.stopping = False
        self.leaving = False
        self.meter = UsageMeter(live)
        self.uncertain: set[str] = set()
        # Calls whose start is recorded and whose tool was not touched yet, with how often they had been asked about.
        self.begun: dict[str, int] = {}
        self.result: Callable[..., Any] = _no_result
        limit = scope.config.tool_execution.max_function_tool_concurrency if scope.config.tool_execution else None
        self.slots = asyncio.Semaphore(limit) if limit else None
        self.screening = asyncio.Lock()
        self.totals: Totals = {}
        self._scopes: dict[str, FrameSettings] = {ev.ROOT: scope}
        self._toolsets: dict[str, Toolset] = {}

    def scope(self, frame_id: str) -> FrameSettings:
        """The settings under which a frame runs."""
        return self._scopes[frame_id]

    async def enter(self, frame_id: str) -> FrameSettings:
        """The settings of a frame, worked out from the agent tool that opened it where nobody did yet."""
        scope = self._scopes.get(frame_id)
        if scope is None:
            call = self.run.calls[frame_id]
            outer = await self.enter(call.frame)
            tool: Any = await self.tool_of(call)
            scope = self._scopes[frame_id] = outer.inner(tool)
            scope.context.known = partial(decision_on, self.live, frame_id)
            if tool.structured is not None:
                scope.context.tool_input = call.params
            if tool.on_stream is not None:
                self.feeds[frame_id] = Tap(self.live.graph, frame_id, tool, RawItem(own_copy(call.raw)))
                self.feeds[frame_id].catch_up(self.live.log.steps)
        return scope

    async def toolset(self, frame: Frame, *, fresh: bool = False) -> Toolset:
        """What a frame's agent may call now; looked up again before each model call."""
        known = self._toolsets.get(frame.id)
        if known is not None and not fresh and known.agent == frame.agent:
            return known
        agent, context = self.agent(frame.agent), (await self.enter(frame.id)).context
        tools, handoffs = agent.static_tools(), []
        if tools is None:
            tools = await agent.get_all_tools(context)
        if agent.handoffs:
            handoffs = [made for made in handoffs_of(agent) if await is_enabled(made, context, agent)]
        if known is None or known.agent != frame.agent or known.tools != tools or known.handoffs != handoffs:
            known = self._toolsets[frame.id] = Toolset(frame.agent, tools, handoffs)
        return known

    async def find_tool(self, call: Call) -> Tool | None:
        """The tool that a call means, if its agent still has it."""
        frame = self.run.frames[call.frame]
        return (await self.toolset(frame)).find(call.raw)

    async def tool_of(self, call: Call) -> Tool:
        """The tool that a call means, or `ToolMissing`."""
        tool = await self.find_tool(call)
        if tool is None:
            raise ToolMissing(call.proposal.name, agent=call.agent)
        return tool

    def begin_call(self, call_id: str) -> None:
        """Note that the start of a call was recorded along with something else: it is to be run next."""
        call = self.run.calls.get(call_id)
        if call is not None:
            self.begun[call_id] = call.asks

    def start_of(self, call: Call, reports: Sequence[Report] = ()) -> cm.StartCall:
        """Return the command that starts a call, in the name under which this drive holds the run."""
        by = "" if self.claim is None else self.claim.worker
        return cm.StartCall(call.id, call.proposal.tool, list(reports), by)

    def leave(self) -> None:
        """Begin nothing more, and end once what was begun is recorded."""
        self.leaving = True
        self.roused()

    def signal(self, signal: Delta | AgentAtWork) -> None:
        """Tell listeners something that is not recorded."""
        feed = self.feeds.get(signal.frame)
        if feed is not None:
            feed.signal(signal)

    def listens(self, frame_id: str) -> bool:
        """Whether anybody wants a frame's deltas."""
        return frame_id in self.feeds

    def tool_context(self, call: Call, tool: Tool) -> ToolContext[Any]:
        """What a tool is told about the call it runs."""
        scope = self._scopes[call.frame]
        return ToolContext.of(
            scope.context,
            tool_name=tool.name,
            tool_call_id=call.proposal.label,
            agent=self.agent(call.agent),
            tool_call=RawItem(own_copy(call.raw)),
            run_config=scope.config,
            idempotency_key=request_id(self.run, call.id),
            approval=call.approval or (call.decision if call.supplied is None else None),
            run_id=self.run.id,
            **let_run_as(call),
        )


def let_run_as(call: Call) -> LetRun:
    """What a call was let run as, for its tool; made anew for the tool itself, since hooks may have edited theirs."""
    return {
        "tool_arguments": call.text,
        "tool_digest": call.proposal.tool,
        "basis": None if call.preview is None and call.decision is None else _basis(call),
        "resumed": None if call.supplied is None else _resumed(call),
    }


def _basis(call: Call) -> dict[str, str] | None:
    """What the decision that lets the call run is bound to: what its editor was shown, else what everybody was."""
    decision = call.decision
    if decision is not None and decision.args is not None and decision.basis is not None:
        return dict(decision.basis)
    return None if call.preview is None else dict(call.preview.basis)


def _resumed(call: Call) -> Resumed | None:
    """What a call that needed input goes on with."""
    if call.need is None or call.supplied is None:
        return None
    refused = call.supplied.verdict != "answer"
    answers = None if refused else own_copy(call.supplied.output)
    return Resumed(own_copy(call.need.state), own_copy(call.need.requests), answers, call.supplied.message, refused)


def _no_result(*_args: Any) -> Any:
    return None
