"""Decisions that are made in a way of their own: confirmed first, by breaking glass, by asking the agent back."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    Approval,
    Decider,
    Grant,
    Inbox,
    NotAllowed,
    Runner,
    RunState,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.directory.login import Login
from keyturn.directory.people import People
from keyturn.journal.memory import MemoryJournal
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.playing import HOUR, Clock

ANN = Decider("ann", roles=("ops",), strength="authenticated")
BOB = Decider("bob", roles=("ops",), strength="authenticated")
EVE = Decider("eve", strength="authenticated")
GUS = Decider("gus", roles=("chief",), strength="authenticated")
paid: list[int] = []


@pytest.fixture(autouse=True)
def nothing_was_paid() -> None:
    paid.clear()


def clerk(*, again: bool = False, **terms: Any) -> Agent[Any]:
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    tool = function_tool(pay, needs_approval=True, approval=Approval(**terms) if terms else None)
    rounds = [[function_call("pay", {"amount": 5}, call_id=f"c{count}")] for count in range(2 if again else 1)]
    return Agent("clerk", model=ScriptedModel([*rounds, "done"]), tools=[tool])


async def paused(store: Any, agent: Agent[Any], requester: str | None = "eve") -> str:
    state: RunState[Any] = RunState(None, "go", agent)
    start = state.undelivered.start
    assert start is not None
    start["requester"] = requester
    return (await Runner.run(agent, state, journal=store)).run_id


async def gone_on(store: Any, run: str, agent: Agent[Any], streamed: bool = False) -> Any:
    state = await RunState.load(store, run, agent)
    if not streamed:
        return await Runner.run(agent, state)
    result = Runner.run_streamed(agent, state)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("streamed", [False, True])
async def test_only_the_requester_confirms(store: Any, streamed: bool) -> None:
    agent, inbox = clerk(confirm=True), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    assert (row.request.waits_for, row.request.requester) == ("requester", "eve")
    acting = Decider("bob", strength="authenticated", acting_for="eve")
    for other in (ANN, "eve", acting):
        with pytest.raises(NotAllowed):
            await inbox.approve(row, by=other)
        with pytest.raises(NotAllowed):
            await inbox.reject(row, by=other)
    assert (await inbox.approve(row, by=EVE)).state == "approve"
    await gone_on(store, run, agent, streamed)
    assert paid == [5]
    assert (await check(store)).ok


async def test_nobody_confirms_for_a_run_that_does_not_say_whose_it_is(store: Any) -> None:
    inbox = Inbox(store)
    await paused(store, clerk(confirm=True), requester=None)
    [row] = await inbox.list()
    with pytest.raises(NotAllowed, match="has none"):
        await inbox.approve(row, by=EVE)
    assert paid == []


async def test_the_requester_confirms_first_and_then_others_decide(store: Any) -> None:
    agent = clerk(confirm=True, role="ops", quorum=2)
    inbox = Inbox(store, {"clerk": agent})
    run = await paused(store, agent)
    [row] = await inbox.list()
    assert (row.request.waits_for, row.request.verdicts) == ("requester", ("approve", "reject"))
    with pytest.raises(NotAllowed, match="eve must confirm it"):
        await inbox.approve(row, by=ANN)
    for _ in range(2):
        row = await inbox.approve(row, by=EVE)
    assert (row.state, row.request.waits_for, row.request.votes) == ("open", "others", ())
    assert row.request.confirmed is not None
    assert row.request.confirmed.by == "eve"
    with pytest.raises(UserError, match="a call that its requester confirms"):
        await inbox.approve(row, by=ANN, edit={"amount": 6})
    with pytest.raises(NotAllowed):
        await inbox.approve(row, by=ANN, grant=Grant())
    eve_of_ops = Decider("eve", roles=("ops",), strength="authenticated")
    await inbox.approve(row, by=ANN)
    with pytest.raises(NotAllowed, match="other than the requester"):
        await inbox.approve(row, by=eve_of_ops, note="as one of the others")
    assert (await inbox.approve(row, by=BOB)).state == "approve"
    await gone_on(store, run, agent)
    assert paid == [5]
    assert (await check(store)).ok


async def test_a_list_of_what_somebody_may_decide_has_a_request_in_the_step_that_is_theirs(store: Any) -> None:
    agent = clerk(confirm=True, role="ops")
    inbox = Inbox(store, {"clerk": agent})
    await paused(store, agent)
    [row] = await inbox.list()
    assert (await inbox.list(for_=ANN), await inbox.list(for_=EVE)) == ([], [row])
    row = await inbox.approve(row, by=EVE)
    assert (await inbox.list(for_=ANN), await inbox.list(for_=EVE)) == ([row], [])


async def test_the_requester_alone_says_no(store: Any) -> None:
    agent, inbox = clerk(confirm=True, role="ops", deny_quorum=2), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    assert (await inbox.reject(row, by=EVE, message="not mine")).state == "reject"
    await gone_on(store, run, agent)
    assert paid == []
    assert (await check(store)).ok


async def test_who_breaks_the_glass_decides_alone_and_says_why(store: Any) -> None:
    agent, inbox = clerk(users=["ann", "bob"], quorum=2, not_requester=True, break_glass="chief"), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    with pytest.raises(NotAllowed):
        await inbox.approve(row, by=GUS)
    for who in (ANN, EVE, "gus", Decider("eve", roles=("chief",), strength="authenticated")):
        with pytest.raises(NotAllowed):
            await inbox.approve(row, by=who, break_glass=True, note="the site is down")
    wrong: list[Any] = [
        {},
        {"note": " \u200b"},
        {"note": "so", "edit": {"amount": 1}},
        {"note": "so", "grant": Grant()},
    ]
    for words in wrong:
        with pytest.raises(UserError):
            await inbox.approve(row, by=GUS, break_glass=True, **words)
    assert (await inbox.approve(row, by=GUS, break_glass=True, note="the site is down")).state == "approve"
    notices = [notice for notice in await store.outbox() if notice.topic == "request.glass_broken"]
    assert [notice.about["by"] for notice in notices] == ["gus"]
    await gone_on(store, run, agent)
    assert paid == [5]
    assert (await check(store)).ok


async def test_without_glass_there_is_nothing_to_break(store: Any) -> None:
    inbox = Inbox(store)
    await paused(store, clerk(role="ops"))
    [row] = await inbox.list()
    with pytest.raises(NotAllowed, match="allow no emergency override"):
        await inbox.approve(row, by=GUS, break_glass=True, note="so")
    for wrong in ({"break_glass": "chief"}, {"break_glass": ""}, {"confirm": "yes"}):
        with pytest.raises(UserError, match=r"break_glass|confirm"):
            Approval(**wrong)  # pyright: ignore[reportArgumentType]  # it is wrong on purpose
    with pytest.raises(UserError, match="no one to escalate to"):
        Approval(confirm=True, expires="1h", on_expiry="escalate", escalate_to=("ann",))


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_agent_is_asked_back(store: Any, streamed: bool) -> None:
    agent, inbox = clerk(again=True), Inbox(store)
    run = await paused(store, agent)
    [row] = await inbox.list()
    with pytest.raises(UserError, match="is empty"):
        await inbox.ask_back(row, " ", by="ann")
    row = await inbox.ask_back(row, "For which invoice?", by="ann")
    assert (row.state, row.by) == ("asked_back", "ann")
    result = await gone_on(store, run, agent, streamed)
    model: Any = agent.model
    assert "For which invoice?" in str(tool_outputs(model.calls[-1]))
    assert "propose the call again" in str(tool_outputs(model.calls[-1]))
    assert ([item.call_id for item in result.interruptions], paid) == (["c1"], [])
    log = (await RunState.load(store, run, agent)).live.run
    assert log.rejected == [], "a question is no rejection that a policy counts"
    assert (await check(store)).ok


@pytest.mark.parametrize("verdict", ["approve", "reject", "answer"])
async def test_a_decision_has_a_time_at_which_its_decider_might_decide(
    own_key: None, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulator: a process stood still after it admitted a delegate, whose time was up when it went on."""
    clock = Clock()
    store = MemoryJournal(clock=clock)
    inbox, people, admitted = Inbox(store), People(store), People.admitted
    await people.start("ada")
    await people.add("bob", roles=["ops"], by="ada")
    await people.add("cyd", by="ada")
    await people.delegate("bob", "cyd", lasts="1h")
    run = await paused(store, clerk(role="ops"))

    async def slow(self: People, *asked: Any, **more: Any) -> Decider:
        found = await admitted(self, *asked, **more)
        clock.pass_ms(2 * HOUR)
        return found

    monkeypatch.setattr(People, "admitted", slow)
    [row] = await inbox.list(run=run)
    if verdict == "approve":
        await inbox.approve(row, by=Login("cyd"))
    elif verdict == "reject":
        await inbox.reject(row, by=Login("cyd"))
    else:
        await inbox.answer(row, "by hand", by=Login("cyd"))
    assert not (await check(store)).violations
