"""The drive, which loop and effects share: the writer, and the settings, agents and tools of a frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...agents.agent import Agent
from ...agents.agent_base import is_enabled
from ...agents.context import LetRun, RunContextWrapper, ToolContext
from ...agents.handoff import handoffs_of
from ...core import commands as cm
from ...core import events as ev
from ...core.errors import ToolMissing
from ...core.items import RawItem, own_copy
from ...core.past import Totals
from ...core.records import BY_GRANT, Report
from ...core.run import Call, Frame, request_id
from ...support.forwarding import forwarded
from ...support.threads import Place
from ...tools.base import Resumed, Tool
from ..run.frame_settings import FrameSettings, Toolset, toolset_of
from ..run.known_tools import known_tool, own_tools
from ..run.open_run import OpenRun
from ..views.decisions_by_label import DecisionsByLabel
from ..views.event_stream import AgentAtWork, Delta, Tap
from .home import Home, state_of
from .provider_line import ProviderLine
from .usage_limits import UsageMeter
from .writer import Writer


class Begun(NamedTuple):
    """Holds how often a call had been asked about when its start was recorded, and its place among the threads."""

    asks: int
    place: Place


class Drive(Writer):
    """Drives one run once, from where it stands until only people can move it."""

    agent: Callable[[str], Agent[Any]] = forwarded("graph.agent")

    __slots__ = (
        "_judges",
        "_scopes",
        "_toolsets",
        "_wake",
        "attended",
        "begun",
        "claiming",
        "context_kept",
        "graph",
        "home",
        "lease_ms",
        "live",
        "meter",
        "patient",
        "provider",
        "result",
        "roused",
        "screening",
        "totals",
        "uncertain",
        "uncompacted",
    )

    def __init__(self, live: OpenRun, scope: FrameSettings, result: Callable[..., Any]) -> None:
        super().__init__(live.log, live.journal, lambda: live.clock())
        self.live = live
        self.graph = live.graph
        self.meter = UsageMeter(live)
        self.uncertain: set[str] = set()
        # For how long the run's lease is given and renewed.
        self.lease_ms = 0
        # Whether the run waits for a server that is down, as it does under a worker: nobody is there to be told.
        self.patient = False
        # Calls whose start is recorded and whose tool was not touched yet.
        self.begun: dict[str, Begun] = {}
        # Which policies were asked about each call here, as they were: another process may have asked others.
        self._judges: dict[str, tuple[Any, ...]] = {}
        # Whether the root's model talks by itself, so that there may be more to do at any time.
        self.attended = False
        # Whether the journal has the context as it is now.
        self.context_kept: Callable[[], bool] = lambda: True
        # Sends what approves calls that the root's provider makes itself, where its model is talked to.
        self.provider: ProviderLine | None = None
        # The call that a caller outside claims now.
        self.claiming: Any = None
        # Says for other processes that calls stand open in this one; None where no worker moves the run.
        self.home: Home | None = None
        # Makes what the run, or a nested frame of it, came to so far: for handlers and extractors that a caller wrote.
        self.result = result
        # How long a conversation was when it could not be compacted, by frame: it is tried again once it is longer.
        self.uncompacted: dict[str, int] = {}
        self.screening = asyncio.Lock()
        self.totals: Totals = {}
        scope.carry(live.graph.root)
        self._scopes: dict[str, FrameSettings] = {ev.ROOT: scope}
        # By frame and by agent: where a model goes on talking, calls of an agent that handed over may still be open.
        self._toolsets: dict[tuple[str, str], Toolset] = {}
        # Whether there may be something to do that the loop has not looked at.
        self.roused = False
        self._wake: asyncio.Future[None] | None = None

    def scope(self, frame_id: str) -> FrameSettings:
        """Return the settings under which a frame runs."""
        return self._scopes[frame_id]

    def known_scope(self, frame_id: str) -> FrameSettings | None:
        """Return the settings under which a frame runs, where they were worked out."""
        return self._scopes.get(frame_id)

    async def enter(self, frame_id: str) -> FrameSettings:
        """Return the settings of a frame, worked out from the agent tool that opened it where nobody did yet."""
        scope = self._scopes.get(frame_id)
        if scope is None:
            call = self.log.run.calls[frame_id]
            outer = await self.enter(call.frame)
            tool: Any = await self.tool_of(call)
            scope = self._scopes[frame_id] = outer.inner(tool)
            scope.context.known = DecisionsByLabel(self.live, frame_id)
            nested = scope.nested
            if nested.structured:
                scope.context.tool_input = call.params
            if nested.on_stream is not None:
                self.feeds[frame_id] = Tap(self.live, frame_id, nested, RawItem(own_copy(call.raw)))
                self.feeds[frame_id].catch_up(self.live.log.steps)
        if (frame := self.log.run.frames.get(frame_id)) is not None:
            agent_at = self.graph.agent_at
            for path in frame.before:  # who handed it over has a say still, in every process
                scope.carry(agent_at[path])
            scope.carry(agent_at[frame.agent])
        return scope

    async def toolset(self, frame: Frame, *, fresh: bool = False, of: str | None = None) -> Toolset:
        """Return what an agent of a frame may call now, the one at work unless `of` names another.

        It is looked up again before each model call.
        """
        path = frame.agent if of is None else of
        known = self._toolsets.get((frame.id, path))
        if known is not None and not fresh:
            return known
        agent = self.graph.agent_at[path]
        tools, handoffs = agent.static_tools(), []
        if tools is None or agent.handoffs or known is None:
            context = await self._context_of(frame)
            tools = await agent.get_all_tools(context) if tools is None else tools
            if agent.handoffs:
                handoffs = [made for made in handoffs_of(agent) if await is_enabled(made, context, agent)]
        if known is None or not known.is_of(tools, handoffs):
            known = self._toolsets[frame.id, path] = toolset_of(agent, path, tools, handoffs)
        return known

    async def find_tool(self, call: Call) -> Tool | None:
        """Return the tool that a call means, if its agent still has it; a server is asked for its own tools only."""
        frame = self.log.run.frames[call.frame]
        agent = self.graph.agent_at[call.agent]
        if agent.mcp_servers and (frame.id, call.agent) not in self._toolsets:
            own = await own_tools(agent, call.agent, await self._context_of(frame))
            if (tool := own.find(call.raw)) is not None:
                return tool
        return (await self.toolset(frame, of=call.agent)).find(call.raw)

    async def shown_tool(self, call: Call) -> Tool | None:
        """Return the tool that a call means, for people and for words to the model, without asking a server."""
        frame = self.log.run.frames[call.frame]
        known = self._toolsets.get((frame.id, call.agent))
        if known is not None:
            return known.find(call.raw)
        return await known_tool(self.log.run, call, self.graph.agent_at[call.agent], await self._context_of(frame))

    def looked_up(self, call: Call) -> Tool | None:
        """Return the tool that a call means as it was looked up last; None where nobody did yet."""
        known = self._toolsets.get((call.frame, call.agent))
        return None if known is None else known.find(call.raw)

    def secrets_of(self, tool: str) -> set[str]:
        """Return what people are not shown of the arguments of tools of this name, whichever agent has them."""
        named = (each for known in self._toolsets.values() for (_, name), each in known.by_key.items() if name == tool)
        recorded = (call.proposal for call in self.log.run.calls.values() if call.proposal.name == tool)
        return {secret for each in (*named, *recorded) for secret in each.secrets}

    async def _context_of(self, frame: Frame) -> RunContextWrapper[Any]:
        return (await self.enter(frame.id)).context

    async def tool_of(self, call: Call) -> Tool:
        """Return the tool that a call means, or raise `ToolMissing`."""
        tool = await self.find_tool(call)
        if tool is None:
            raise ToolMissing(call.proposal.name, agent=call.agent)
        return tool

    def judge(self, call: Call, policies: tuple[Any, ...]) -> None:
        """Note that these policies were asked about a call."""
        self._judges[call.id] = policies

    def judged_by(self, call: Call, policies: tuple[Any, ...]) -> bool:
        """Return whether these very policies were asked about a call, as they are now."""
        asked = self._judges.get(call.id, ())
        if not policies:
            return not asked
        return len(asked) == len(policies) and all(one is other for one, other in zip(asked, policies, strict=True))

    def begin_call(self, call_id: str, place: Place) -> None:
        """Note that the start of a call was recorded in a fused step: it is to be run next, in this place."""
        call = self.log.run.calls.get(call_id)
        if call is None:
            place.leave()
        else:
            self.begun[call_id] = Begun(call.asks, place)

    def drop_begun(self, *calls: str) -> None:
        """Forget what was begun and is not to be run here any more: these calls."""
        for call_id in calls:
            begun = self.begun.pop(call_id, None)
            if begun is not None:
                begun.place.leave()

    def start_of(self, call: Call, tool: str, reports: Sequence[Report] = ()) -> cm.StartCall:
        """Return the command that starts a call, naming the worker that holds the run.

        `tool` is the digest of the tool that would run.
        """
        by = "" if self.hold is None else self.hold.worker
        return cm.StartCall(call.id, tool, list(reports), by)

    def leave(self) -> None:
        """Begin nothing more, and end once what was begun is recorded."""
        self.stops.add("leaving")
        self.rouse()

    async def _catch_up(self) -> int:
        """Fold what others wrote, whatever it is read for, and have the loop look at it."""
        found = await super()._catch_up()
        if found:
            self.rouse()
        return found

    def rouse(self) -> None:
        """Have the loop look again at what there is to do, also where it is not asleep yet."""
        self.roused = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def sleep(self) -> None:
        """Wait until there may be something to do: a job ended, others wrote to the run, or the drive is to end."""
        if not self.roused:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        self.roused = False

    def signal(self, signal: Delta | AgentAtWork) -> None:
        """Send listeners a signal that is not recorded."""
        feed = self.feeds.get(signal.frame)
        if feed is not None:
            feed.signal(signal)

    def listens(self, frame_id: str) -> bool:
        """Return whether anybody listens to a frame's deltas."""
        return frame_id in self.feeds

    def tool_context(self, call: Call, tool: Tool) -> ToolContext[Any]:
        """Return the context of the call for its tool."""
        scope = self._scopes[call.frame]
        return ToolContext.of(
            scope.context,
            tool_name=tool.name,
            tool_call_id=call.proposal.label,
            agent=self.graph.agent_at[call.agent],
            tool_call=RawItem(own_copy(call.raw)),
            run_config=scope.config,
            idempotency_key=request_id(self.log.run, call.id),
            approval=approved_by(call),
            run_id=self.log.run.id,
            **let_run_as(call),
        )


def approved_by(call: Call) -> ev.Decision | None:
    """Return the decision that let a call run, be it a standing one; None where nobody was asked."""
    if call.approval is not None:
        return call.approval
    if call.by.startswith(BY_GRANT):
        return ev.Decision(call.id, "approve", "", via="grant", grant=call.by.removeprefix(BY_GRANT))
    return call.decision if call.supplied is None else None


def let_run_as(call: Call) -> LetRun:
    """Return what a call was let run as, for its tool, copied anew since hooks may have edited theirs."""
    return {
        "tool_arguments": call.text,
        "tool_digest": call.proposal.tool,
        "basis": None if call.preview is None and call.decision is None else _basis(call),
        "resumed": None if call.supplied is None else _resumed(call),
        "screened": call.proposal.gate != "allow" or call.decision is not None,
    }


def _basis(call: Call) -> dict[str, str] | None:
    """Return the basis of the decision that lets the call run: what its editor was shown, else what everybody was."""
    decision = call.decision
    if decision is not None and decision.args is not None and decision.basis is not None:
        return dict(decision.basis)
    return None if call.preview is None else dict(call.preview.basis)


def _resumed(call: Call) -> Resumed | None:
    """Return what a call that needed input goes on with."""
    if call.need is None or call.supplied is None:
        return None
    refused = call.supplied.verdict != "answer"
    answers = None if refused else own_copy(call.supplied.output)
    return Resumed(
        own_copy(state_of(call.need.state)), own_copy(call.need.requests), answers, call.supplied.message, refused
    )
