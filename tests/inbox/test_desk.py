"""The inbox on every kind of store: what a person decides is checked, recorded once, and names who was first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import (
    Agent,
    Approval,
    Conflict,
    Expired,
    Grant,
    Inbox,
    NotPending,
    Policy,
    Rule,
    Runner,
    RunState,
    UserError,
    ask_user,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.waiting import until

paid: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def nothing_was_paid() -> None:
    paid.clear()


@function_tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    paid.append((to, amount))
    return f"paid {amount} to {to}"


def clerk(*replies: Any) -> Agent[Any]:
    calls = [function_call("pay", {"to": "ada", "amount": 5}, call_id="c1")]
    return Agent("clerk", model=ScriptedModel([*(replies or [calls]), "done"]), tools=[pay, ask_user()])


async def paused(store: Any, agent: Agent[Any], **options: Any) -> str:
    return (await Runner.run(agent, "go", journal=store, **options)).run_id


async def gone_on(store: Any, run: str, agent: Agent[Any], **options: Any) -> Any:
    return await Runner.run(agent, await RunState.load(store, run, agent), **options)


async def test_what_was_approved_runs_and_nothing_before(store: Any) -> None:
    agent, inbox = clerk(), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    assert (row.tool, row.agent, row.kind, row.state) == ("pay", "clerk", "approval", "open")
    row = await inbox.approve(row, by="ann", note="all right")
    assert (row.state, row.by, paid, await inbox.list()) == ("approve", "ann", [], [])
    assert (await gone_on(store, run, agent)).final_output == "done"
    assert paid == [("ada", 5)]


async def test_an_inbox_opens_the_journal_of_a_url(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    agent = Agent("clerk", model=ScriptedModel([function_call("pay", {"to": "ada", "amount": 5}), "done"]), tools=[pay])
    run = (await Runner.run(agent, "Pay.", journal=url)).run_id
    [request] = await Inbox(url).list()
    await Inbox(url).approve(request, by="ann")
    await Runner.run(agent, await RunState.load(url, run, agent))
    assert paid == [("ada", 5)]
    with pytest.raises(UserError, match="named by a URL"):
        Inbox("runs.db")


async def test_a_rejection_reaches_the_model_and_always_covers_later_calls(store: Any) -> None:
    calls = [[function_call("pay", {"to": name, "amount": 1}, call_id=name)] for name in ("ada", "bob")]
    agent, inbox = clerk(*calls), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    await inbox.reject(row, by="ann", message="not today", always=True)
    result = await gone_on(store, run, agent)
    assert (result.final_output, paid) == ("done", [])
    assert str(result.to_input_list()).count("not today") == 2


async def test_an_edit_is_checked_by_the_tool_and_runs_as_it_is(store: Any) -> None:
    agent = clerk()
    run = await paused(store, agent)
    [row] = await Inbox(store).list()
    with pytest.raises(UserError, match="give the inbox the agent 'clerk'"):
        await Inbox(store).approve(row, by="ann", edit={"to": "ada", "amount": 3})
    inbox = Inbox(store, {"clerk": agent})
    with pytest.raises(UserError, match="do not fit 'pay'"):
        await inbox.approve(row, by="ann", edit={"to": "ada", "amount": "much"})
    assert (await inbox.get(row.id)).state == "open"
    assert (await inbox.approve(row, by="ann", edit={"to": "ada", "amount": 3})).state == "edit"
    await gone_on(store, run, agent)
    assert paid == [("ada", 3)]


async def test_a_grant_covers_what_waits_beside_it(store: Any) -> None:
    agent = clerk([function_call("pay", {"to": to, "amount": 5}, call_id=to) for to in ("ada", "bob", "eve")])
    inbox = Inbox(store)
    run = await paused(store, agent)
    first = next(row for row in await inbox.list() if row.call == "r/1.0")
    await inbox.approve(first, by="ann", grant=Grant(where={"to": {"one_of": ["ada", "bob"]}}))
    states = {row.call: row.state for row in await store.requests(Query(run=run))}
    assert states == {"r/1.0": "approve", "r/1.1": "approve", "r/1.2": "open"}
    [grant] = await inbox.grants()
    await inbox.revoke(run, grant.id, by="ann")
    assert (await inbox.grants())[0].revoked
    with pytest.raises(NotPending, match="no such grant"):
        await inbox.revoke(run, grant.id, by="ann")


async def test_a_question_is_answered(store: Any) -> None:
    agent, inbox = clerk([function_call("ask_user", {"question": "Which?"}, call_id="q")]), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list(kind="external")
    with pytest.raises(NotPending, match="requires an answer"):
        await inbox.approve(row, by="ann")
    await inbox.answer(row, "the blue one", by="ann")
    assert "the blue one" in str((await gone_on(store, run, agent)).to_input_list())


async def test_who_is_second_is_told_who_was_first(store: Any) -> None:
    """One by one; `trials.race` has them at once."""
    inbox = Inbox(store)
    run = await paused(store, clerk())
    [row] = await inbox.list()
    await inbox.approve(row, by="ann")
    for late in (inbox.approve(row, by="bob"), inbox.reject(row, by="bob"), inbox.reject(row, by="ann")):
        with pytest.raises(Conflict, match="approve by ann") as raised:
            await late
        assert (raised.value.winner, raised.value.decision, bool(raised.value.at)) == ("ann", "approve", True)
    assert len(await store.read(run)) == (await store.head(run))
    assert (await check(store)).ok


async def test_the_same_word_twice_is_one_word(store: Any) -> None:
    """A double click or a retried request is answered alike and recorded once."""
    inbox = Inbox(store)
    run = await paused(store, clerk())
    [row] = await inbox.list()
    answers = await asyncio.gather(*(inbox.approve(row, by="ann") for _ in range(20)))
    assert {answer.state for answer in answers} == {"approve"}
    assert b"".join(await store.read(run)).count(b"CallDecided") == 1


async def test_of_many_at_once_one_wins(store: Any) -> None:
    inbox = Inbox(store)
    await paused(store, clerk())
    [row] = await inbox.list()
    people = [f"p{number}" for number in range(12)]
    tried = [inbox.approve(row, by=by) if by > "p5" else inbox.reject(row, by=by) for by in people]
    said = await asyncio.gather(*tried, return_exceptions=True)
    winners = [answer for answer in said if not isinstance(answer, BaseException)]
    assert len(winners) == 1
    assert {error.winner for error in said if isinstance(error, Conflict)} == {winners[0].by}


async def test_what_is_shown_is_what_is_decided(store: Any) -> None:
    inbox = Inbox(store)
    await paused(store, clerk())
    [row] = await inbox.list()
    with pytest.raises(Conflict, match="no longer the one that was shown"):
        await inbox.approve(row.id, by="ann", digest="0" * 64)
    assert (await inbox.approve(row, by="ann", digest=row.digest)).state == "approve"


async def test_too_late_is_too_late(store: Any) -> None:
    """Nobody has looked since it ran out, and it cannot be approved all the same."""
    policy = Policy(Rule("ask", tool="pay", approval=Approval(expires="0.05s")))
    agent, inbox = clerk(), Inbox(store)
    run = await paused(store, agent, policy=policy)
    [row] = await inbox.list()

    async def time_is_up() -> bool:
        return await store.now() > row.expires_at

    await until(time_is_up)
    with pytest.raises(Expired):
        await inbox.approve(row, by="ann")
    result = await gone_on(store, run, agent, policy=policy)
    assert (result.final_output, paid, (await inbox.get(row.id)).state) == ("done", [], "expire")


async def test_a_doubt_is_settled_by_one_person(store: Any) -> None:
    """Who is second is told."""

    at_work = asyncio.Event()

    @function_tool
    async def act() -> str:
        at_work.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent("a", model=ScriptedModel([[function_call("act", {}, call_id="c1")], "done"]), tools=[act])
    inbox = Inbox(store)
    running = asyncio.ensure_future(Runner.run(agent, "go", journal=store))
    await at_work.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    [row] = await inbox.list(kind="in_doubt")
    with pytest.raises(NotPending, match="in doubt"):
        await inbox.approve(row, by="ann")
    with pytest.raises(UserError, match="not 'perhaps'"):
        await inbox.resolve(row, "perhaps", by="ann")  # type: ignore[arg-type]  # it is wrong on purpose
    for outcome in ("did_not_run", "retry"):
        with pytest.raises(UserError, match="only a call that ran has an output"):
            await inbox.resolve(row, outcome, "it did", by="ann")
    await inbox.resolve(row, "ran", "it did", by="ann")
    with pytest.raises(Conflict, match="ran by ann"):
        await inbox.resolve(row, "retry", by="bob")
    assert (await gone_on(store, row.run, agent)).final_output == "done"


async def test_what_is_not_there_cannot_be_decided(store: Any) -> None:
    """An id of nothing, or of another tenant's, is the same."""
    inbox = Inbox(store)
    await paused(store, clerk())
    [row] = await inbox.list()
    for other, name in ((inbox, "5e1f"), (Inbox(store.of("them")), row.id)):
        with pytest.raises(NotPending, match="there is no such request"):
            await other.approve(name, by="ann", revision=1)
    with pytest.raises(UserError, match="the approver is missing"):
        await inbox.approve(row, by="")
    assert (await inbox.get(row.id)).state == "open"


async def test_requests_come_in_pages(store: Any) -> None:
    inbox = Inbox(store)
    runs = [await paused(store, clerk()) for _ in range(5)]
    seen, after = list[str](), None
    while page := await inbox.list(limit=2, after=after):
        seen += [row.run for row in page]
        after = (page[-1].asked_at, page[-1].id)
    assert sorted(seen) == sorted(runs)
