"""A resume that was refused leaves its state as good as before: nothing that it brought stays with the run."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    AgentMissing,
    MaxTurnsExceeded,
    MemoryJournal,
    MemorySession,
    RunConfig,
    ToolMissing,
    UserError,
)
from keyturn.core.errors import KeyturnError
from tests.playing import Run, World, approved, asked, asking, call, model, shape


class Broken(MemorySession):
    """A session that cannot be read."""

    async def get_items(self, limit: int | None = None) -> list[Any]:
        raise OSError("no disk")


def never(_view: Any, _context: Any) -> str:
    return "deny"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"session": MemorySession("s"), "conversation_id": "other"}, UserError),
        ({"session": Broken("s")}, OSError),
        ({"session": MemorySession("s"), "journal": MemoryJournal()}, UserError),
        ({"journal": MemoryJournal()}, UserError),
        ({"journal": "nothing://there"}, KeyturnError),
        ({"context": {"user": "eve"}, "policy": never, "max_turns": 1}, MaxTurnsExceeded),
        ({"context": {"user": "eve"}, "session": MemorySession("s"), "max_turns": 1}, MaxTurnsExceeded),
        ({"run_config": {"no": "such"}}, UserError),
    ],
    ids=["conversation", "unreadable", "both", "journal", "no journal", "turns", "turns and session", "config"],
)
async def test_what_a_refused_resume_brought_is_gone(
    world: World, run: Run, saved: bool, options: Any, error: type[Exception]
) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go", context={"user": "ann"}), agent, saved)
    before = state.live.attached
    for _ in range(2):
        with pytest.raises(error):
            await run(agent, state, **options)
        kept = state.live.attached
        assert (kept.session, kept.policy, kept.journal) == (before.session, before.policy, before.journal)
        assert kept.context.context == {"user": "ann"}
    result = await run(agent, state)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert result.context_wrapper.context == {"user": "ann"}


async def test_an_agent_that_cannot_go_on_takes_nobodys_place(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go"), agent, saved)
    with pytest.raises(ToolMissing):
        await run(Agent("a", model=model("done")), state, context="eve")
    with pytest.raises(AgentMissing):
        await run(Agent("b", model=model("done")), state, context="eve")
    assert state.live.graph.root is agent
    assert (await run(agent, state)).context_wrapper.context is None


async def test_a_session_of_a_refused_resume_has_nothing_and_can_come_again(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go", max_turns=1), agent)
    session = MemorySession("s")
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, state, session=session)
    assert (await session.get_items(), world.done) == ([], [])
    await run(agent, state, session=session, max_turns=2)
    assert shape(await session.get_items()) == ["user", "call c1", "output c1", "assistant"]


async def test_a_resume_that_failed_later_keeps_what_it_brought(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")])
    state = await approved(await run(agent, "go", context="ann"), agent)
    with pytest.raises(KeyturnError):  # the script is at its end
        await run(agent, state, context="bob", run_config=RunConfig(workflow_name="w"))
    agent.model.enqueue("done")
    result = await run(agent, state)
    assert (result.context_wrapper.context, world.done) == ("bob", ["ask(0)"])
    assert len(asked(agent)) == 3
