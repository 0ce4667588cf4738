"""What people say beside a decision: they are on it, they put it off, they take an approval back; on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyturn import (
    Agent,
    Conflict,
    Decider,
    Grant,
    Inbox,
    MemoryJournal,
    NotAllowed,
    NotPending,
    Proof,
    Runner,
    RunState,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.core import commands as cm
from keyturn.engine.driving.writer import write_to
from keyturn.engine.run.log_cache import log_in
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.presenting.trail import trail_of
from tests.inbox.paying import ANN, BOB, EVE, paid, paying


def clerk(*amounts: int, **terms: Any) -> Agent[Any]:
    tool = paying(**terms)
    calls = [function_call("pay", {"amount": amount}, call_id=f"c{amount}") for amount in amounts or (5,)]
    return Agent("clerk", model=ScriptedModel([calls, "done", "done"]), tools=[tool])


async def paused(store: Any, agent: Agent[Any]) -> str:
    return (await Runner.run(agent, "go", journal=store)).run_id


async def gone_on(store: Any, run: str, agent: Agent[Any], streamed: bool = False) -> Any:
    state = await RunState.load(store, run, agent)
    if not streamed:
        return await Runner.run(agent, state)
    result = Runner.run_streamed(agent, state)
    async for _ in result.stream_events():
        pass
    return result


async def test_a_claim_is_shown_and_restricts_nobody(store: Any) -> None:
    inbox = Inbox(store)
    await paused(store, clerk())
    [row] = await inbox.list()
    due = await store.due()
    row = await inbox.take(row, by="ann")
    claim = row.request.claim
    assert claim is not None
    assert claim.by == "ann"
    assert timedelta(minutes=14) < claim.until - datetime.fromtimestamp(await store.now() / 1000, UTC)
    assert (await inbox.get(row.id)).request.claim == claim
    assert await inbox.list(unclaimed=True) == []
    assert await inbox.list(for_="ann", unclaimed=True) == [row]
    with pytest.raises(Conflict, match="ann claimed it") as told:
        await inbox.let_go(row, by="bob")
    assert told.value.winner == "ann"
    taken = (await inbox.take(row, by="bob", lasts="1h")).request.claim
    assert taken is not None
    assert taken.by == "bob"
    assert (await inbox.let_go(row, by="bob")).request.claim is None
    assert await store.due() == due, "a mark makes no run due"
    assert (await inbox.approve(await inbox.take(row, by="ann"), by="eve")).state == "approve"
    assert (await check(store)).ok


async def test_what_somebody_put_off_is_left_out_for_them_alone() -> None:
    time = [1_000_000]
    store = MemoryJournal(lambda: time[0])
    inbox = Inbox(store)
    await paused(store, clerk())
    [row] = await inbox.list()
    row = await inbox.snooze(row, by="ann", lasts="2h")
    assert [mark.by for mark in row.request.snoozed] == ["ann"]
    assert await inbox.list(for_="ann") == []
    assert await inbox.list(for_="bob") == await inbox.list() == [row]
    time[0] += 2 * 3_600_000 + 1
    assert await inbox.list(for_="ann") == [row]
    later = datetime.fromtimestamp(time[0] / 1_000 + 60, UTC)
    row = await inbox.snooze(row, by="ann", until=later)
    assert await inbox.list(for_="ann") == []
    row = await inbox.wake(row, by="ann")
    assert await inbox.list(for_="ann") == [row]
    assert (await check(store)).ok


async def test_a_mark_says_until_when_and_is_of_somebody_who_may_decide(store: Any) -> None:
    inbox = Inbox(store)
    await paused(store, clerk(role="ops"))
    [row] = await inbox.list()
    for wrong in ({}, {"lasts": "1h", "until": datetime.now(UTC)}, {"until": datetime(2026, 1, 1)}, {"lasts": "60d"}):
        with pytest.raises(UserError, match="until"):
            await inbox.snooze(row, by=ANN, **wrong)
    for stranger in ("ann", EVE):
        with pytest.raises(NotAllowed):
            await inbox.take(row, by=stranger)
        assert await inbox.list(for_=stranger) == []
        with pytest.raises(NotPending, match="no such request"):
            await inbox.get(row.id, for_=stranger)
    assert (await inbox.get(row.id, for_=ANN)).id == row.id
    await inbox.take(row, by=ANN)
    with pytest.raises(UserError, match="name what was shown"):
        await inbox.take(row.id, by=ANN)
    assert (await check(store)).ok


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_approval_is_taken_back_before_it_is_executed(store: Any, streamed: bool) -> None:
    agent, inbox = clerk(), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    await inbox.approve(row, by="ann")
    row = await inbox.withdraw(row, by="bob", note="wrong account")
    assert (row.state, row.request.revision, row.reason) == ("open", 2, "bob withdrew the approval: wrong account")
    result = await gone_on(store, run, agent, streamed)
    assert (paid, [item.revision for item in result.interruptions]) == ([], [2])
    await inbox.approve(result.interruptions[0].request, by="ann")
    assert (await gone_on(store, run, agent, streamed)).final_output == "done"
    assert paid == [5]
    with pytest.raises(Conflict, match="was started at"):
        await inbox.withdraw(row, by="ann")
    assert (await check(store)).ok


async def test_an_edit_taken_back_shows_what_the_editor_wrote(store: Any) -> None:
    agent = clerk()
    inbox = Inbox(store, {"clerk": agent})
    await paused(store, agent)
    [row] = await inbox.list()
    await inbox.approve(row, by="ann", edit={"amount": 3})
    row = await inbox.withdraw(row, by="ann")
    assert row.params == {"amount": 3}
    assert (await check(store)).ok


async def test_who_may_take_an_approval_back(store: Any) -> None:
    agent, inbox = clerk(role="ops"), Inbox(store)
    await paused(store, agent)
    [row] = await inbox.list()
    with pytest.raises(NotPending, match="no vote on this request"):
        await inbox.withdraw(row, by=ANN)
    await inbox.approve(row, by=ANN)
    for stranger in (EVE, "ann"):
        with pytest.raises(NotAllowed, match="cannot withdraw this approval"):
            await inbox.withdraw(row, by=stranger)
    junk = Proof("ssh", "SHA256:none", b"junk")
    with pytest.raises(UserError, match="omit the proof"):  # nothing that was not checked is on record as signed
        await inbox.withdraw(row, by=ANN, proof=junk)
    with pytest.raises(NotAllowed, match="no user 'bob'"):
        await inbox.as_person("bob").decide(row, "withdraw", proof=junk)
    no_role_any_more = Decider("ann", strength="authenticated")
    assert (await inbox.withdraw(row, by=no_role_any_more)).state == "open"
    with pytest.raises(NotPending, match="no vote on this request"):
        await inbox.withdraw(row, by=BOB)
    with pytest.raises(NotPending, match="no such request"):
        await inbox.withdraw("5e1f", by=BOB)
    assert (await check(store)).ok


async def test_a_vote_is_withdrawn_while_the_request_is_open(store: Any) -> None:
    """Once: the vote from before counts no second time, and whoever has none is told so."""
    agent, inbox = clerk(role="ops", quorum=2), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    await inbox.approve(row, by=ANN)
    for stranger, refused in ((BOB, NotPending), (EVE, NotPending), ("ann", NotAllowed)):
        with pytest.raises(refused):
            await inbox.withdraw(row, by=stranger)
    row = await inbox.withdraw(row, by=ANN, note="wrong account", once="7")
    assert await inbox.withdraw(row, by=ANN, note="wrong account", once="7") == row
    withdrawn = [(vote.by, vote.verdict, vote.note) for vote in row.request.withdrawn]
    assert (row.state, row.request.votes, withdrawn) == ("open", (), [("ann", "withdraw", "wrong account")])
    trail = trail_of((await log_in(store, run)).steps, row.call)
    assert [(mark.word, mark.by, mark.text) for mark in trail[-1:]] == [("vote withdrawn", "ann", "wrong account")]
    for who in (BOB, ANN):
        row = await inbox.approve(row, by=who)
    assert row.state == "approve"
    assert (await gone_on(store, run, agent)).final_output == "done"
    with pytest.raises(Conflict, match="was started at"):
        await inbox.withdraw(row, by=ANN)
    assert (await check(store)).ok


async def test_whoever_no_longer_rejects_undoes_no_approval_that_came_first(store: Any) -> None:
    """Who no longer approves does: the call asks anew."""
    inbox = Inbox(store)
    await paused(store, clerk(role="ops", deny_quorum=2))
    [row] = await inbox.list()
    row = await inbox.reject(row, by=ANN)
    log = await log_in(store, row.run)
    await inbox.approve(row, by=BOB)
    who = Decider("ann", ("ops",), "authenticated")
    with pytest.raises(Conflict, match="approve by bob"):
        await write_to(store, log, cm.Withdraw(row.call, who, row.digest, vote="reject"))
    assert (await inbox.withdraw(row, by=BOB)).state == "open"
    assert (await check(store)).ok


async def test_a_confirmation_is_withdrawn_with_the_votes_that_rested_on_it(store: Any) -> None:
    inbox = Inbox(store)
    await Runner.run(clerk(confirm=True, role="ops", quorum=2), "go", journal=store, requester="eve")
    [row] = await inbox.list()
    eve = Decider("eve", strength="authenticated")
    await inbox.approve(row, by=eve)
    row = await inbox.approve(row, by=ANN)
    assert (row.request.waits_for, len(row.request.votes)) == ("others", 1)
    row = await inbox.withdraw(row, by=eve)
    assert (row.request.waits_for, row.request.votes, row.request.confirmed) == ("requester", (), None)
    assert (await check(store)).ok


async def test_what_a_grant_let_run_is_taken_back_too(store: Any) -> None:
    agent, inbox = clerk(1, 2), Inbox(store)
    run = await paused(store, agent)
    first, second = sorted(await inbox.list(), key=lambda row: row.call)
    await inbox.approve(first, by="ann", grant=Grant())
    assert (await inbox.withdraw(second, by="ann")).state == "open"
    result = await gone_on(store, run, agent)
    assert (paid, len(result.interruptions)) == ([1], 1)
    assert (await check(store)).ok


async def test_what_is_begun_is_not_taken_back(store: Any) -> None:
    """The loser learns who started it, and when."""
    agent, inbox = clerk(), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    told: list[Conflict] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def slow(amount: int) -> str:
        """Pay."""
        with pytest.raises(Conflict) as refused:
            await inbox.withdraw(row, by="ann")
        told.append(refused.value)
        return pay(amount)

    agent.tools = [function_tool(slow, name_override="pay", needs_approval=True)]
    await inbox.approve(row, by="ann")
    await gone_on(store, run, agent)
    [error] = told
    assert "was started at" in str(error)
    assert (error.decision, bool(error.winner), bool(error.at), paid) == ("start", True, True, [5])


async def test_a_batch_is_of_the_same_shape_and_each_is_decided_by_itself(store: Any) -> None:
    agents = [clerk(5), clerk(5), clerk(6), clerk(5)]
    runs = [await paused(store, agent) for agent in agents]
    inbox = Inbox(store)
    rows = await inbox.list()
    alike = await inbox.alike(next(row for row in rows if row.run == runs[0]))
    assert {row.run for row in alike} == {runs[0], runs[1], runs[3]}
    await inbox.reject(alike[1], by="zoe")
    outcomes = await inbox.approve_all(alike, by="ann", note="seen")
    assert [(outcome.request, outcome.ok) for outcome in outcomes] == [
        (alike[0].id, True), (alike[1].id, False), (alike[2].id, True)
    ]  # fmt: skip
    assert isinstance(outcomes[1].error, Conflict)
    assert outcomes[1].error.winner == "zoe"
    assert [row.params for row in await inbox.list()] == [{"amount": 6}]
    [outcome] = await inbox.reject_all(await inbox.list(), by="ann", message="no")
    assert outcome.row is not None
    assert outcome.row.state == "reject"
    with pytest.raises(UserError, match="name what was shown"):
        await inbox.approve_all([rows[0].id], by="ann")  # type: ignore[list-item]  # it is wrong on purpose
    assert (await check(store)).ok
