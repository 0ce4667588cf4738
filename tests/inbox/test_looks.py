"""`Approval(min_look=)`: who approves had the request on the screen for that long, whatever door they come through."""

from __future__ import annotations

from typing import Any, cast

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Conflict,
    Grant,
    Inbox,
    Insights,
    MemoryJournal,
    NotAllowed,
    Runner,
    RunState,
    UserError,
)
from keyturn.audit.checker import check
from keyturn.directory.people import Login, People
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.inbox.paying import ANN, BOB, EVE, paid, paying


class Clock:
    """A store's time, which a test moves on."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


def clerk(said: Any = None, **terms: Any) -> Agent[Any]:
    tool = paying(**({"min_look": "5s"} | terms))
    cast("Any", tool).on_approval = said
    model = ScriptedModel([[function_call("pay", {"amount": 5}, call_id="c")], "done", "done"])
    return Agent("clerk", model=model, tools=[tool])


async def asked(clock: Clock, **terms: Any) -> tuple[MemoryJournal, Inbox, Agent[Any], Any]:
    store, agent = MemoryJournal(clock), clerk(**terms)
    inbox = Inbox(store, {"clerk": agent})
    await Runner.run(agent, "go", journal=store)
    [row] = await inbox.list()
    return store, inbox, agent, row


async def gone_on(store: Any, run: str, agent: Agent[Any], streamed: bool) -> Any:
    state = await RunState.load(store, run, agent)
    if not streamed:
        return await Runner.run(agent, state)
    result = Runner.run_streamed(agent, state)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("streamed", [False, True])
async def test_who_approves_has_looked_for_that_long(streamed: bool) -> None:
    clock = Clock()
    store, inbox, agent, row = await asked(clock)
    with pytest.raises(NotAllowed, match="looked"):
        await inbox.approve(row, by=ANN)
    await inbox.looked(row, by=ANN)
    clock.now += 4_000
    with pytest.raises(NotAllowed, match="of them are left"):
        await inbox.approve(row, by=ANN)
    with pytest.raises(NotAllowed, match="of them are left"):
        await inbox.approve(row, by=ANN, edit={"amount": 4})
    clock.now += 2_000
    with pytest.raises(NotAllowed, match="looked"):
        await inbox.approve(row, by=BOB)
    assert (await inbox.approve(row, by=ANN)).state == "approve"
    assert (await gone_on(store, row.run, agent, streamed)).final_output == "done"
    assert (paid, (await check(store)).violations) == ([5], [])


async def test_rejecting_needs_no_look() -> None:
    store, inbox, _, row = await asked(Clock())
    assert (await inbox.reject(row, by="anybody")).state == "reject"
    assert (await check(store)).ok


async def test_a_look_is_on_record_once_for_each_person_on_every_store(store: Any) -> None:
    inbox = Inbox(store)
    await Runner.run(clerk(), "go", journal=store)
    [row] = await inbox.list()
    due = await store.due()
    for who in (ANN, BOB, ANN):
        await inbox.looked(row, by=who)
    [row] = await inbox.list()
    assert [look.by for look in row.request.looked] == ["ann", "bob"]
    assert [look.by for look in (await inbox.get(row.id)).request.looked] == ["ann", "bob"]
    assert await store.due() == due, "a look makes no run due"
    total = (await Insights(store).report()).total
    assert (total.first_look.count, total.words) == (1, {"look": 1}), "the first of all is the time to first look"
    assert (await check(store)).ok


async def test_a_name_alone_has_not_looked() -> None:
    clock = Clock()
    store, inbox, _, row = await asked(clock)
    await inbox.looked(row, by="ann")
    await inbox.looked(row.id, by=ANN)  # whoever names no asking says nothing of what they saw
    clock.now += 60_000
    for who in ("ann", ANN):
        with pytest.raises(NotAllowed, match="no view is recorded"):
            await inbox.approve(row, by=who)
    assert (await inbox.get(row.id)).request.looked == ()
    assert (await check(store)).ok


async def test_a_look_at_what_was_asked_before_counts_no_more() -> None:
    clock = Clock()
    _, inbox, agent, row = await asked(clock)
    await inbox.looked(row, by=ANN)
    clock.now += 6_000
    await inbox.approve(row, by=ANN)
    again = await inbox.withdraw(row, by=ANN)
    with pytest.raises(NotAllowed, match="no view is recorded"):
        await inbox.approve(again, by=ANN)
    with pytest.raises(Conflict, match="look at it again"):
        await inbox.looked(row, by=ANN)
    assert (await inbox.get(row.id)).request.looked == ()
    assert agent.name == "clerk"


async def test_somebody_whom_the_terms_keep_out_cannot_look() -> None:
    _, inbox, _, row = await asked(Clock(), role="ops")
    with pytest.raises(NotAllowed, match="cannot look"):
        await inbox.looked(row, by=EVE)


async def test_a_login_is_believed_by_its_token_alone() -> None:
    clock = Clock()
    store = MemoryJournal(clock)
    people = People(store)
    await people.start("ada")
    await people.add("bob", by="ada")
    agent = clerk()
    inbox = Inbox(store, {"clerk": agent}, people)
    await Runner.run(agent, "go", journal=store)
    [row] = await inbox.list()
    with pytest.raises(NotAllowed):
        await inbox.looked(row, by=Login("bob", token="forged"))
    with pytest.raises(NotAllowed):
        await inbox.looked(row, by=Login("nobody"))
    clock.now += 60_000
    with pytest.raises(NotAllowed, match="no view is recorded"):
        await inbox.approve(row, by=Login("bob"))
    await inbox.looked(row, by=Login("bob"))
    clock.now += 6_000
    assert (await inbox.approve(row, by=Login("bob"))).state == "approve"


async def test_each_voice_of_a_quorum_has_looked() -> None:
    clock = Clock()
    store, inbox, _, row = await asked(clock, quorum=2)
    await inbox.looked(row, by=ANN)
    clock.now += 6_000
    await inbox.approve(row, by=ANN)
    with pytest.raises(NotAllowed, match="looked"):
        await inbox.approve(row, by=BOB)
    await inbox.looked(row, by=BOB)
    clock.now += 6_000
    assert (await inbox.approve(row, by=BOB)).state == "approve"
    assert (await check(store)).ok


async def test_a_standing_decision_looks_at_nothing() -> None:
    clock = Clock()
    _, inbox, _, row = await asked(clock)
    await inbox.looked(row, by=ANN)
    clock.now += 6_000
    with pytest.raises(NotAllowed, match="decide it alone"):
        await inbox.approve(row, by=ANN, grant=Grant())
    assert (await inbox.get(row.id)).state == "open"


async def test_a_bare_state_has_no_screen() -> None:
    agent = clerk()
    with pytest.raises(UserError, match="needs an inbox"):
        await Runner.run(agent, "go")


async def test_an_answer_of_the_tool_itself_is_no_look() -> None:
    store = MemoryJournal()
    agent = clerk(said=lambda _context, _item: {"approve": True})
    inbox = Inbox(store)
    await Runner.run(agent, "go", journal=store)
    assert [row.state for row in await inbox.list()] == ["open"]
    assert paid == []


@pytest.mark.parametrize("wrong", ["soon", 0, -1, True])
def test_a_look_that_is_no_duration_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError):
        Approval(min_look=wrong)


async def test_an_app_takes_such_terms() -> None:
    agent = clerk()
    async with App([agent], MemoryJournal()) as app:
        handle = await app.start("clerk", "go")
        await handle.wait()
        [row] = await app.inbox.list()
        with pytest.raises(NotAllowed):
            await app.inbox.approve(row, by=ANN)
