"""What the loop and its effects share: appending, and looking up what a frame runs under.

Every change of a run goes through `commit`: decide, append what was decided as one step, publish it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from ..agents.agent import Agent
from ..agents.agent_base import is_enabled
from ..agents.context import ToolContext
from ..agents.handoff import handoffs_of
from ..core import commands as cm
from ..core import events as ev
from ..core.codec import encode
from ..core.decide import step
from ..core.errors import Conflict, ToolMissing
from ..core.items import RawItem
from ..core.past import Totals
from ..core.run import Call, Frame, Run, request_id
from ..journal.base import Claim, LostRace
from ..tools.base import Prepared, Resumed, Tool
from .feed import Feed, Tap
from .known import decision_on
from .limits import Meter
from .live import Live
from .rows import changes, known_open, opened_by
from .scope import Scope, Toolset
from .signals import AgentAtWork, Delta
from .traces import Traces


class Drive:
    """One drive of one run, from where it stands until only people can move it."""

    def __init__(self, live: Live, scope: Scope) -> None:
        self.live = live
        self.claim: Claim | None = None
        self.stopping = False
        self.leaving = False
        self.roused: Callable[[], None] = _nobody
        self.refused: Conflict | None = None
        self.meter = Meter(live)
        self.uncertain: set[str] = set()
        self.result: Callable[..., Any] = _no_result
        self.feeds: dict[str, Feed] = {}
        self.traces: Traces | None = None
        self.prepared: dict[str, Prepared] = {}
        limit = scope.config.tool_execution.max_function_tool_concurrency if scope.config.tool_execution else None
        self.slots = asyncio.Semaphore(limit) if limit else None
        self.screening = asyncio.Lock()
        self.totals: Totals = {}
        self._scopes: dict[str, Scope] = {ev.ROOT: scope}
        self._toolsets: dict[str, Toolset] = {}
        self._appending: asyncio.Lock | None = asyncio.Lock() if live.journal is not None else None

    @property
    def run(self) -> Run:
        """The run as it stands."""
        return self.live.log.run

    def agent(self, path: str) -> Agent[Any]:
        """The agent of a path."""
        return self.live.graph.agent(path)

    def scope(self, frame_id: str) -> Scope:
        """The settings under which a frame runs."""
        return self._scopes[frame_id]

    async def enter(self, frame_id: str) -> Scope:
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
                self.feeds[frame_id] = Tap(self.live.graph, frame_id, tool, RawItem(call.raw))
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

    async def commit(self, *commands: cm.Command) -> list[ev.AnyEvent]:
        """Decide commands and append their events as one step; the events are durable when this returns."""
        if self._appending is None:
            return self._append_here(commands)
        async with self._appending:
            return await self._append_there(commands)

    async def kept(self) -> None:
        """Wait until nothing that was decided is still on its way to the journal: what is not kept starts nothing."""
        if self._appending is not None and self._appending.locked():
            async with self._appending:
                return

    async def catch_up(self) -> None:
        """Fold what others appended since the run was read."""
        assert self._appending is not None
        async with self._appending:
            await self._catch_up()

    async def heard(self, place: int) -> None:
        """The journal has that many lines of the run: fold those that somebody else wrote, and tell the loop."""
        assert self._appending is not None
        async with self._appending:
            if len(self.live.log) >= place:
                return
            await self._catch_up()
        self.roused()

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
            tool_arguments=call.text,
            agent=self.agent(call.agent),
            tool_call=RawItem(call.raw),
            run_config=scope.config,
            idempotency_key=request_id(self.run, call.id),
            approval=call.approval or (call.decision if call.supplied is None else None),
            run_id=self.run.id,
            basis=call.preview.basis if call.preview is not None else None,
            resumed=_resumed(call),
        )

    def _append_here(self, commands: tuple[cm.Command, ...]) -> list[ev.AnyEvent]:
        now = self.live.clock()
        events = self._decide(commands, now)
        if events:
            self._appended(self._made(now, events))
        return events

    async def _append_there(self, commands: tuple[cm.Command, ...]) -> list[ev.AnyEvent]:
        journal, log = self.live.journal, self.live.log
        assert journal is not None
        while True:
            now = self.live.clock()
            events = self._decide(commands, now)
            if not events:
                return events
            made = self._made(now, events)
            try:
                line = encode(made)
                rows = changes(self.live, events, await self._tools_of(events), log.steps[0].at if log.steps else now)
                await journal.append(log.run.id, len(log), [line], self.claim, rows)
            except LostRace:
                log.refold()
                await self._catch_up()
                continue
            except BaseException:
                log.refold()
                self.live.open = known_open(log.run)
                raise
            self._appended(made, line)
            return events

    async def _catch_up(self) -> None:
        """Somebody else appended first: read what they wrote and fold it."""
        journal, log = self.live.journal, self.live.log
        assert journal is not None
        for theirs in log.extend(await journal.read(log.run.id, len(log))):
            self._publish(theirs)
        self.live.open = known_open(log.run)

    async def _tools_of(self, events: list[ev.AnyEvent]) -> dict[str, Any]:
        """The tools of the calls that began to wait, for what people are shown. One that cannot be had has none."""
        found: dict[str, Any] = {}
        for call in opened_by(self.run, events):
            with contextlib.suppress(Exception):
                found[call.id] = await self.find_tool(call)
        return found

    def _decide(self, commands: tuple[cm.Command, ...], now: int) -> list[ev.AnyEvent]:
        events: list[ev.AnyEvent] = []
        try:
            for command in commands:
                events += step(self.run, command, now)
        except BaseException as error:
            self.refused = error if isinstance(error, Conflict) else None
            if events:
                self.live.log.refold()
            raise
        return events

    def _made(self, now: int, events: list[ev.AnyEvent]) -> ev.Step:
        return ev.Step(now, events) if self.traces is None else self.traces.step(now, events)

    def _appended(self, made: ev.Step, line: bytes | None = None) -> None:
        self.live.log.append(made, line)
        if self.feeds or self.traces is not None:
            self._publish(made)

    def _publish(self, made: ev.Step) -> None:
        for feed in list(self.feeds.values()):
            feed.step(made)
        if self.traces is not None:
            self.traces.happened(made)


def _resumed(call: Call) -> Resumed | None:
    """What a call that needed input goes on with."""
    if call.need is None or call.supplied is None:
        return None
    refused = call.supplied.verdict != "answer"
    answers = None if refused else call.supplied.output
    return Resumed(call.need.state, call.need.requests, answers, call.supplied.message, refused)


def _no_result(*_args: Any) -> Any:
    return None


def _nobody() -> None:
    return None
