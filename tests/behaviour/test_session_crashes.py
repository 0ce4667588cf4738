"""Whatever commit a process dies at, its session is neither short nor doubled afterwards."""

from __future__ import annotations

from typing import Any

from keyturn import Agent, MemorySession, RunContextWrapper, RunState
from keyturn.core.codec import Log
from keyturn.core.events import SessionWritten
from keyturn.engine.run.agents import AgentGraph
from keyturn.engine.run.open_run import OpenRun
from keyturn.engine.run.used_states import UsedStates
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, tool_outputs
from keyturn.sessions.history import orphan_calls, orphan_outputs
from tests.playing import (
    World,
    approved,
    call,
    plain,
    shape,
)


async def test_no_crash_leaves_the_session_short_or_doubled(world: World) -> None:
    """Cut at every commit, with the session as it was then and as it was if one more write had landed."""

    def build() -> Agent[Any]:
        second = Agent("second", model=script({"c3"}), tools=[world.tool("ask", needs_approval=True)])
        tools = [world.tool("ask", needs_approval=True), world.tool("free")]
        return Agent("first", model=script({"c1", "c2"}, {"h"}), tools=tools, handoffs=[second])

    whole, agent = MemorySession("s"), build()
    result = await plain(agent, "go", session=whole)
    while result.interruptions:
        result = await plain(agent, await approved(result, agent), session=whole)
    log, told = result.to_state().live.log, await whole.get_items()
    placed = [(place, event) for place, step in enumerate(log.steps, 1) for event in step.events]
    snapshots = [(place, event.count) for place, event in placed if isinstance(event, SessionWritten)]
    assert len(snapshots) == 3
    for cut in range(1, len(log)):
        written = max([count for position, count in snapshots if position <= cut], default=0)
        landed = min([count for _position, count in snapshots if count > written], default=written)
        for count in {written, landed} if tape_at(log, cut) >= landed else {written}:
            session, agent = MemorySession("s"), build()
            await session.add_items(told[:count])
            live = OpenRun(Log.read(log.lines(cut)), AgentGraph(agent), RunContextWrapper(None), used=UsedStates())
            ended = await finished(agent, RunState.at(live, cut, []), session)
            items = await session.get_items()
            where = f"cut {cut}, {count} items before"
            assert (ended, sorted(shape(items))) == ("done", sorted(shape(told))), where
            assert orphan_calls(items) == orphan_outputs(items) == [], where


def tape_at(log: Log, cut: int) -> int:
    """How much a run had to tell its session at a cut."""
    return len(Log.read(log.lines(cut)).run.frames["r"].tape)


CALLS = {"c1": "ask", "c2": "free", "c3": "ask", "h": "transfer_to_second"}


def script(*rounds: set[str]) -> ScriptedModel:
    """A model that makes the calls of its first round that has no results yet, and then is done."""

    def answer(request: ModelRequest) -> Any:
        known = tool_outputs(request)
        missing = next((labels for labels in rounds if not labels <= known.keys()), None)
        return "done" if missing is None else [call(CALLS[label], label) for label in sorted(missing)]

    return ScriptedModel(answer)


async def finished(agent: Agent[Any], state: RunState[Any], session: MemorySession) -> Any:
    """Drive a run that was cut to its end, as another process would."""
    result = await plain(agent, state, session=session)
    while result.interruptions:
        state = result.to_state()
        for item in state.get_interruptions():
            state.resolve(item, "retry") if item.kind == "in_doubt" else state.approve(item)
        result = await plain(agent, state, session=session)
    return result.final_output
