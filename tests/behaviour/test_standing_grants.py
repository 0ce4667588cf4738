"""Grants that outlive a run: for a session, a person or an agent; kept in the journal, counted and revoked there."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, Approval, Grant, Inbox, MemoryJournal, RunState, SQLiteSession, UserError, function_tool
from keyturn.audit.checker import check
from keyturn.core import events as ev
from keyturn.core.errors import NotAllowed, NotPending
from keyturn.core.people import Decider
from keyturn.engine.run.log_cache import log_in
from keyturn.inbox.restored import settle
from keyturn.journal import open_journal
from keyturn.journal.retention import erase_ended
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.effort import AT_LENGTH
from tests.playing import play
from tests.waiting import until_status

DAY = 86_400_000


class Desk:
    """An agent that pays once in each run, and what it paid."""

    def __init__(self, name: str = "desk", amount: int = 5, **tool: Any) -> None:
        self.paid: list[int] = []
        self.amount = amount

        @function_tool(**({"needs_approval": True} | tool))
        def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        def reply(items: Any) -> Any:
            return "done" if tool_outputs(items) else [function_call("pay", {"amount": self.amount}, call_id="c1")]

        self.agent = Agent(name, model=ScriptedModel(reply), tools=[pay])


async def begun(journal: Any, desk: Desk, streamed: bool = False, requester: str | None = None, **options: Any) -> str:
    """Run until the agent is done or a call waits."""
    if requester is None:
        return (await play(desk.agent, "go", streamed, journal=journal, **options)).run_id
    sessions = options.pop("sessions", None)
    app = App([desk.agent], journal, sessions=sessions, worker=False)
    run = (await app.start("desk", "go", requester=requester, **options)).id
    session = sessions(options["session_id"]) if sessions is not None and "session_id" in options else None
    await play(desk.agent, await app.state(run), streamed, session=session)
    return run


async def granted(journal: Any, desk: Desk, grant: Grant, by: Any = "ann", **options: Any) -> str:
    """Let one call run, with a grant beside it; the run that is its home, at its end."""
    run = await begun(journal, desk, **options)
    inbox = Inbox(journal, {desk.agent.name: desk.agent})
    [row] = await inbox.list(run=run)
    await inbox.approve(row, by=by, grant=grant)
    state = await RunState.load(journal, run, desk.agent)
    session = options["sessions"](options["session_id"]) if "session_id" in options else options.get("session")
    result = await play(desk.agent, state, session=session)
    assert result.final_output == "done"
    return run


async def paid(journal: Any, desk: Desk, streamed: bool = False, **options: Any) -> int:
    """How much a new run pays without anybody's word."""
    before = len(desk.paid)
    await begun(journal, desk, streamed, **options)
    return len(desk.paid) - before


# ------------------------------------------------------------------------------------------------------ how far it goes


async def test_a_grant_for_an_agent_covers_calls_of_other_runs(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    home = await granted(journal, desk, Grant(scope="agent"))
    result = await play(desk.agent, "go", streamed, journal=journal)
    assert (result.final_output, desk.paid, result.interruptions) == ("done", [5, 5], [])
    [row] = await journal.grants()
    assert (row.run, row.uses, row.revoked) == (home, 1, False)
    assert await journal.due() == [], "a run that is over has nothing to be moved"
    said = [event for step in (await log_in(journal, home)).steps for event in step.events]
    [lent] = [event for event in said if isinstance(event, ev.GrantLent)]
    assert (lent.run, lent.call) == (result.run_id, "r/1.0")
    assert (await check(journal)).ok


async def test_a_grant_for_its_run_covers_nothing_elsewhere(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    await granted(journal, desk, Grant())
    assert await paid(journal, desk, streamed) == 0


async def test_a_grant_for_a_session_holds_in_that_session_and_for_that_person(tmp_path: Path, streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    kept: dict[str, Any] = {"sessions": lambda name: SQLiteSession(name, str(tmp_path / "sessions.db"))}
    await granted(journal, desk, Grant(scope="session"), session_id="ours", requester="eve", **kept)
    desk.agent.model = ScriptedModel(_once_more)
    assert await paid(journal, desk, streamed, session_id="other", requester="eve", **kept) == 0
    assert await paid(journal, desk, streamed, requester="eve", **kept) == 0
    with pytest.raises(NotPending, match="no session 'ours'"):  # nor does another begin anything there
        await paid(journal, desk, streamed, session_id="ours", requester="bob", **kept)
    assert await paid(journal, desk, streamed, session_id="ours", requester="eve", **kept) == 1


async def test_a_grant_for_a_session_holds_for_runs_that_a_caller_makes(tmp_path: Path, streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    ours, other = (SQLiteSession(name, str(tmp_path / "sessions.db")) for name in ("ours", "other"))
    desk.agent.model = ScriptedModel(_once_more)
    await granted(journal, desk, Grant(scope="session"), session=ours)
    assert await paid(journal, desk, streamed, session=other) == 0
    assert await paid(journal, desk, streamed, session=ours) == 1


def _once_more(asked: Any) -> Any:
    items = asked.input
    last = max(place for place, item in enumerate(items) if item.get("role") == "user")
    answered = any(item.get("type") == "function_call_output" for item in items[last:])
    return "done" if answered else [function_call("pay", {"amount": 5}, call_id=f"c{len(items)}")]


async def test_a_grant_for_a_conversation_at_the_provider_is_one_for_a_session(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    await granted(journal, desk, Grant(scope="session"), conversation_id="conv_1")
    assert await paid(journal, desk, streamed, conversation_id="conv_2") == 0
    assert await paid(journal, desk, streamed, conversation_id="conv_1") == 1


async def test_a_session_that_is_named_as_a_conversation_is_another(tmp_path: Path, streamed: bool) -> None:
    """The id of a session may be chosen by whoever chats; the provider gives that of a conversation."""
    journal, desk = MemoryJournal(), Desk()
    await granted(journal, desk, Grant(scope="session"), conversation_id="conv_1")
    desk.agent.model = ScriptedModel(_once_more)
    session = SQLiteSession("conv_1", str(tmp_path / "sessions.db"))
    assert await paid(journal, desk, streamed, session=session) == 0


async def test_a_grant_for_a_person_holds_for_runs_on_their_behalf(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    await granted(journal, desk, Grant(scope="requester"), requester="eve")
    assert await paid(journal, desk, streamed, requester="bob") == 0
    assert await paid(journal, desk, streamed) == 0
    assert await paid(journal, desk, streamed, requester="eve") == 1


async def test_it_covers_no_other_agent_tool_or_argument(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    await granted(journal, desk, Grant(where={"amount": {"le": 5}}, scope="agent"))
    assert await paid(journal, Desk("another"), streamed) == 0
    assert await paid(journal, Desk(amount=6), streamed) == 0
    assert await paid(journal, Desk(description_override="Pays twice."), streamed) == 0
    assert await paid(journal, Desk(), streamed) == 1


async def test_it_covers_the_same_tool_of_a_nested_agent(streamed: bool) -> None:
    journal = MemoryJournal()

    def boss(inner: Desk) -> Agent[Any]:
        asks = function_call("ask_desk", {"input": "pay"}, call_id="c0")
        model = ScriptedModel(lambda items: "done" if tool_outputs(items) else [asks])
        return Agent("boss", model=model, tools=[inner.agent.as_tool("ask_desk", "Asks.")])

    first, second = Desk(), Desk()
    agent = boss(first)
    run = (await play(agent, "go", journal=journal)).run_id
    [row] = await Inbox(journal).list(run=run)
    await Inbox(journal).approve(row, by="ann", grant=Grant(scope="agent"))
    assert (await play(agent, await RunState.load(journal, run, agent))).final_output == "done"
    assert await paid(journal, Desk(), streamed) == 0, "an agent of that name which nobody called"
    assert (await play(boss(second), "go", streamed, journal=journal)).final_output == "done"
    assert second.paid == [5]


# -------------------------------------------------------------------------------------------------- how long, how often


async def test_uses_are_counted_for_all_runs_together(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    await granted(journal, desk, Grant(uses=2, scope="agent"))
    assert [await paid(journal, desk, streamed) for _ in range(4)] == [1, 1, 0, 0]
    assert [row.uses for row in await journal.grants()] == [2]
    assert (await check(journal)).ok


async def test_runs_at_once_use_it_no_more_often_than_it_says(tmp_path: Path) -> None:
    journal, desk = open_journal(f"sqlite:///{tmp_path}/j.db"), Desk()
    await granted(journal, desk, Grant(uses=3, scope="agent"))
    await asyncio.gather(*(play(desk.agent, "go", journal=journal) for _ in range(8)))
    assert len(desk.paid) == 4
    assert (await check(journal)).ok
    await journal.close()


async def test_it_ends_at_its_time(streamed: bool) -> None:
    journal, desk = MemoryJournal(lambda: time[0]), Desk()
    time = [1_000]
    await granted(journal, desk, Grant(expires="1h", scope="agent"))
    assert await paid(journal, desk, streamed) == 1
    time[0] += 3_600_001
    assert await paid(journal, desk, streamed) == 0


async def test_it_is_revoked_for_all_runs_at_once_also_when_its_run_is_over(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    home = await granted(journal, desk, Grant(scope="agent"))
    [row] = await Inbox(journal).grants()
    await Inbox(journal).revoke(row.run, row.id, by="bob")
    assert await paid(journal, desk, streamed) == 0
    with pytest.raises(NotPending, match="no such grant"):
        await Inbox(journal).revoke(home, row.id, by="bob")
    assert (await check(journal)).ok


async def test_a_grant_never_approves_what_waits_already(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    waits = (await play(desk.agent, "go", streamed, journal=journal)).run_id
    await granted(journal, desk, Grant(scope="agent"))
    result = await play(desk.agent, await RunState.load(journal, waits, desk.agent), streamed)
    assert ([item.call for item in result.interruptions], desk.paid) == (["r/1.0"], [5])


@pytest.mark.trial
async def test_one_of_many_grants_is_found_and_no_log_is_read_in_vain() -> None:
    """Those that are used up, or for other arguments, are told by their rows; what a row says is never believed."""

    class Read(MemoryJournal):
        read_for: list[str]

        async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
            self.read_for.append(run)
            return await super().read(run, after, limit)

    journal = Read()
    journal.read_for = []
    many = 230 if AT_LENGTH else 40
    for amount in range(many):
        await granted(journal, Desk(amount=amount), Grant(where={"amount": amount}, scope="agent"))
    for streamed in (False, True):
        for amount in (0, many // 2, many - 1):
            journal.read_for.clear()
            assert await paid(journal, Desk(amount=amount), streamed) == 1
            assert len(set(journal.read_for)) <= 2
        journal.read_for.clear()
        assert await paid(journal, Desk(amount=many), streamed) == 0
        assert len(set(journal.read_for)) <= 1


# ------------------------------------------------------------------------------------------------------ who may give it


async def test_a_giver_who_could_not_decide_the_call_has_granted_nothing(streamed: bool) -> None:
    """The terms of the call that would ask are what counts, with the person for whom that run acts."""
    journal, desk = MemoryJournal(), Desk(approval=Approval(not_requester=True))
    await granted(journal, desk, Grant(scope="agent"), requester="eve", by=Decider("ann", strength="authenticated"))
    assert await paid(journal, desk, streamed, requester="ann") == 0
    assert await paid(journal, desk, streamed, requester="eve") == 1


async def test_what_takes_several_people_is_granted_by_none() -> None:
    journal, desk = MemoryJournal(), Desk(approval=Approval(quorum=2))
    run = (await play(desk.agent, "go", journal=journal)).run_id
    [row] = await Inbox(journal).list(run=run)
    with pytest.raises(NotAllowed):
        await Inbox(journal).approve(row, by="ann", grant=Grant(scope="agent"))


async def test_what_cannot_be_kept_is_refused_where_it_is_said() -> None:
    desk = Desk()
    state = (await play(desk.agent, "go")).to_state()
    with pytest.raises(UserError, match="kept in a journal"):
        state.approve(state.get_interruptions()[0], grant=Grant(scope="agent"))
    journal = MemoryJournal()
    await play(desk.agent, "go", journal=journal)
    [row] = await Inbox(journal).list()
    with pytest.raises(UserError, match="without a session"):
        await Inbox(journal).approve(row, by="ann", grant=Grant(scope="session"))
    with pytest.raises(UserError, match="for whom it acts"):
        await Inbox(journal).approve(row, by="ann", grant=Grant(scope="requester"))
    mistaken: Any = "everybody"
    with pytest.raises(UserError, match="scope of a grant"):
        Grant(scope=mistaken)


# ----------------------------------------------------------------------------------------- what becomes of its home run


async def test_a_run_whose_grant_stands_is_not_erased_for_its_age() -> None:
    journal, desk = MemoryJournal(lambda: time[0]), Desk()
    time = [1_000]
    await granted(journal, desk, Grant(expires="10d", scope="agent"))
    await granted(journal, Desk("another"), Grant())
    time[0] += DAY
    assert await erase_ended(journal, time[0]) == 1
    assert await paid(journal, desk) == 1
    time[0] += 10 * DAY
    assert await erase_ended(journal, time[0]) == 2


async def test_a_run_whose_grant_is_used_up_is_erased_for_its_age() -> None:
    journal, desk = MemoryJournal(lambda: time[0]), Desk()
    time = [1_000]
    await granted(journal, desk, Grant(uses=1, scope="agent"))
    time[0] += DAY
    assert await erase_ended(journal, time[0]) == 0
    assert await paid(journal, desk) == 1
    time[0] += DAY
    assert await erase_ended(journal, time[0]) == 2


async def test_an_erased_home_lends_nothing(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk()
    home = await granted(journal, desk, Grant(scope="agent"))
    assert await paid(journal, desk) == 1
    await journal.erase(home)
    assert await paid(journal, desk, streamed) == 0
    assert (await check(journal)).ok


async def test_nothing_that_was_granted_before_a_restore_holds_for_other_runs(tmp_path: Path, streamed: bool) -> None:
    """What was revoked or used since the copy was made is not in the copy."""
    journal, desk = open_journal(f"sqlite:///{tmp_path}/j.db"), Desk()
    await granted(journal, desk, Grant(scope="agent"))
    await journal.taken_for_restored("was brought back")
    await settle(journal)
    assert await paid(journal, desk, streamed) == 0
    await granted(journal, desk, Grant(scope="agent"))
    assert await paid(journal, desk, streamed) == 1
    await journal.close()


async def test_a_row_that_was_planted_lends_nothing(tmp_path: Path, streamed: bool) -> None:
    journal, desk = open_journal(f"sqlite:///{tmp_path}/j.db"), Desk()
    await granted(journal, desk, Grant(uses=1, scope="agent"))
    assert await paid(journal, desk) == 1
    await journal.close()
    with sqlite3.connect(tmp_path / "j.db") as db:
        db.execute("UPDATE grants SET uses = 0")
    journal = open_journal(f"sqlite:///{tmp_path}/j.db")
    assert await paid(journal, desk, streamed) == 0
    assert not (await check(journal)).ok
    await journal.close()


async def test_a_worker_borrows_as_a_caller_does() -> None:
    journal, desk = MemoryJournal(), Desk()
    await granted(journal, desk, Grant(scope="agent"))
    async with App([desk.agent], journal) as app:
        run = await app.start("desk", "go")
        await until_status(app, run.id, "finished")
    assert desk.paid == [5, 5]
