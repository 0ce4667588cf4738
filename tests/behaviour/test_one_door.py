"""What the cold reading and the attack found about deciding, each by its letter; test_doors.py has the laws."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Conflict,
    Decider,
    Inbox,
    MemoryJournal,
    NotAllowed,
    Policy,
    Rule,
    RunConfig,
    Runner,
    RunState,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.core.errors import StateRejected, StorageError
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, function_call

OPS = Decider("ann", roles=("ops",), strength="authenticated")


class World:
    """A desk that pays, and what it paid."""

    def __init__(self, *replies: Any, **options: Any) -> None:
        self.paid: list[int] = []

        async def pay(amount: int, to: str = "ada") -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool = function_tool(pay, **{"needs_approval": True, **options})
        first = replies or ([function_call("pay", {"amount": 5}, call_id="c1")],)
        self.agent: Agent[Any] = Agent("desk", model=ScriptedModel([*first, "done", "done"]), tools=[self.tool])


class Source(Agent[Any]):
    """An agent whose tools come from elsewhere, as those of MCP servers do: no check at the start sees them."""

    async def get_all_tools(self, run_context: Any = None) -> list[Any]:
        return [*self.more]


def sourced(world: World) -> Agent[Any]:
    agent = Source("desk", model=world.agent.model)
    object.__setattr__(agent, "more", [world.tool])
    object.__setattr__(agent, "static_tools", lambda: None)
    return agent


async def test_the_newest_policy_is_asked_when_the_inbox_decides_a_run_that_began_without_one() -> None:
    """Redesign a, H5: an operator rolls a policy out while a call waits."""
    world, journal = World(), MemoryJournal()
    async with App([world.agent], journal) as app:
        run = await app.start("desk", "go")
        assert (await run.wait(10)).status == "waiting"
    async with App([world.agent], journal, Policy(Rule("deny", tool="pay", reason="frozen"))) as app:
        [request] = await app.inbox.list()
        await app.inbox.approve(request, by="ann")
        assert (await app.result(run.id, 10)).final_output == "done"
    assert world.paid == []
    assert (await check(journal)).ok


async def test_terms_hold_for_a_tool_that_no_check_at_the_start_sees() -> None:
    """Redesign b: roles, users, quorum and not_requester of a tool from a source, and invented names."""
    for terms in (Approval(role="ops"), Approval(users=("ann",)), Approval(quorum=2), Approval(not_requester=True)):
        world, journal = World(approval=terms), MemoryJournal()
        agent = sourced(world)
        run = (await Runner.run(agent, "go", journal=journal)).run_id
        [row] = await Inbox(journal).list()
        for name in ("invented", "another"):
            with pytest.raises(NotAllowed):
                await Inbox(journal).approve(row, by=name)
        state = await RunState.load(journal, run, agent)
        with pytest.raises(NotAllowed):
            state.approve(state.get_interruptions()[0], by="ann")
        assert (world.paid, (await check(journal)).ok) == ([], True), terms


async def test_terms_for_people_are_refused_where_no_inbox_could_ever_know_them() -> None:
    """Redesign b, on a bare state: a tool from a source is refused when it is proposed, and nothing runs."""
    world = World(approval=Approval(role="ops"))
    with pytest.raises(UserError, match="that needs an inbox"):
        await Runner.run(sourced(world), "go")
    assert world.paid == []


async def test_an_answer_that_nobody_can_give_is_refused_by_the_inbox_too() -> None:
    """Redesign c: the log said "answered" while the provider was told "refused"."""
    world, journal = World(), MemoryJournal()
    world.tool.answerable = False
    run = (await Runner.run(world.agent, "go", journal=journal)).run_id
    [row] = await Inbox(journal).list()
    with pytest.raises(UserError, match="runs elsewhere"):
        await Inbox(journal).answer(row, "by hand", by="ann")
    assert b"CallDecided" not in b"".join(await journal.read(run))


async def test_secrets_stay_hidden_in_rows_where_the_tool_cannot_be_had() -> None:
    """Redesign d: who writes the row has no tool at hand, and redacts all the same."""
    call = function_call("pay", {"amount": 5, "to": "hunter2"}, call_id="c1")
    world, journal = World([call]), MemoryJournal()
    world.tool.secrets = ("to",)
    await Runner.run(world.agent, "go", journal=journal)
    [row] = await Inbox(journal).list()
    assert json.loads(row.body)["params"] == {"amount": 5, "to": "[redacted]"}
    assert "hunter2" not in repr(row) + repr(await Inbox(journal).get(row.id))


@pytest.mark.each
@pytest.mark.parametrize("outcome", ["ask_again", "escalate"])
async def test_what_is_said_of_expiry_happens(outcome: str) -> None:
    """Redesign e: both were accepted, and acted as "reject"."""
    time = [1_000]
    journal = MemoryJournal(lambda: time[0])
    terms = Approval(expires="1m", on_expiry=outcome, escalate_to=("ann",), max_asks=2)  # type: ignore[arg-type]  # one of two
    world = World(approval=terms)
    run = (await Runner.run(world.agent, "go", journal=journal)).run_id
    time[0] += 70_000  # the process counts on by its own clock in between
    result = await Runner.run(world.agent, await RunState.load(journal, run, world.agent))
    [item] = result.interruptions
    assert (item.revision, world.paid) == (2, [])
    [row] = await Inbox(journal).list()
    if outcome == "escalate":
        with pytest.raises(NotAllowed):
            await Inbox(journal).approve(row, by="bob")
        await Inbox(journal).approve(row, by=Decider("ann", strength="authenticated"))
        await Runner.run(world.agent, await RunState.load(journal, run, world.agent))
        assert world.paid == [5]
    else:
        time[0] += 70_000
        result = await Runner.run(world.agent, await RunState.load(journal, run, world.agent))
        assert (result.final_output, world.paid) == ("done", [])
    assert (await check(journal)).ok


def test_a_setting_without_effect_is_refused_where_it_is_said() -> None:
    """Redesign e."""
    with pytest.raises(UserError, match="paused_session"):
        RunConfig(paused_session="wait")  # type: ignore[arg-type]  # it is wrong on purpose


async def test_a_bare_state_that_is_given_a_new_journal_is_refused(tmp_path: Path) -> None:
    """H4: it never returned, on disk and in memory."""
    for journal in (f"sqlite:///{tmp_path}/new.db", "memory://"):
        world = World()
        state = (await Runner.run(world.agent, "go")).to_state()
        state.approve(state.get_interruptions()[0])
        async with asyncio.timeout(20):
            with pytest.raises(UserError, match="does not have run"):
                await Runner.run(world.agent, state, journal=journal)
        assert world.paid == []
        assert (await Runner.run(world.agent, state)).final_output == "done", "and it is as good as before"


class Misplaced(MemoryJournal):
    """A journal whose head and lines do not agree: one line was lost, or the head is wrong."""

    wrong = 0

    async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
        await super().append(run, expected + self.wrong, lines, claim, changes)


async def test_a_head_that_no_line_bears_out_ends_in_an_error() -> None:
    """H4: one such run burnt a worker's core for ever."""
    for wrong in (1, -1, 7):
        world, journal = World(), Misplaced()
        run = (await Runner.run(world.agent, "go", journal=journal)).run_id
        [row] = await Inbox(journal).list()
        journal.wrong = wrong
        async with asyncio.timeout(20):
            with pytest.raises(StorageError):
                await Inbox(journal).approve(row, by="ann")
            state = await RunState.load(journal, run, world.agent)
            state.approve(state.get_interruptions()[0])
            with pytest.raises(StorageError):
                await Runner.run(world.agent, state)
        assert world.paid == []


async def test_an_id_alone_decides_nothing() -> None:
    """H6: `approve(id)` after it asked anew approved a difference that nobody saw."""
    world, journal = World(), MemoryJournal()
    await Runner.run(world.agent, "go", journal=journal)
    [row] = await Inbox(journal).list()
    for word, more in (("approve", ()), ("reject", ()), ("answer", ("x",)), ("resolve", ("ran",))):
        with pytest.raises(UserError, match="name what was shown"):
            await getattr(Inbox(journal), word)(row.id, *more, by="ann")
    await Inbox(journal).approve(row.id, revision=row.revision, by="ann")


async def test_a_text_of_a_run_that_a_journal_keeps_is_nothing_without_it(tmp_path: Path) -> None:
    """M4: resumed elsewhere without `journal=`, it had a second effect."""
    world, journal = World(), SQLiteJournal(tmp_path / "runs.db")
    state = (await Runner.run(world.agent, "go", journal=journal)).to_state()
    state.approve(state.get_interruptions()[0])
    text = state.to_string()
    loaded = await RunState.from_string(world.agent, text)
    with pytest.raises(UserError, match="kept in a journal"):
        await Runner.run(world.agent, loaded)
    assert world.paid == []
    assert (await Runner.run(world.agent, loaded, journal=journal)).final_output == "done"
    again = await RunState.from_string(world.agent, text)
    with pytest.raises(Conflict):
        await Runner.run(world.agent, again, journal=journal)
    assert world.paid == [5]
    await journal.close()


async def test_a_text_that_its_journal_contradicts_is_refused() -> None:
    """A run id of ours with another history: of a journal that was restored, or of another's."""
    world, journal = World(), MemoryJournal()
    result = await Runner.run(world.agent, "go", journal=journal)
    text = result.to_state().to_string()
    other = MemoryJournal()
    lines = await journal.read(result.run_id)
    await other.append(result.run_id, 0, lines[:1])
    with pytest.raises((StateRejected, StorageError)):
        await Runner.run(world.agent, await RunState.from_string(world.agent, text), journal=other)
    assert world.paid == []
