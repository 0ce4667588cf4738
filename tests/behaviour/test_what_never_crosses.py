"""What is open never crosses into another run: whoever forks a run a hundred times has not one more voice by it."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, App, Inbox, MemoryJournal, MemorySession, NotAllowed, RunConfig, Runner, RunState, UserError
from keyturn.audit.checker import check
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.inbox.paying import ANN, BOB, CHIEF, EVE, paid, paying

REQUESTER = "eve"


class Clock:
    """A store's time, which a test moves on."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture(autouse=True)
def nothing_was_paid() -> None:
    paid.clear()


def payments(*amounts: int) -> ScriptedModel:
    """Pay each amount in a turn of its own, then say that it is done."""

    def answer(items: Any) -> Any:
        done = len(tool_outputs(items))
        return "done" if done >= len(amounts) else [function_call("pay", {"amount": amounts[done]}, call_id=f"c{done}")]

    return ScriptedModel(answer)


class Desk:
    """An app of which one run waits on these terms, moved by hand."""

    def __init__(self, *amounts: int, **terms: Any) -> None:
        self.clock = Clock()
        self.journal = MemoryJournal(self.clock)
        self.agent = Agent("clerk", model=payments(*(amounts or (5,))), tools=[paying(**terms)])
        self.app = App([self.agent], self.journal, worker=False)
        self.inbox: Inbox = self.app.inbox

    async def waiting(self) -> Any:
        run = (await self.app.start("clerk", "go", requester=REQUESTER)).id
        await self.go_on(run)
        return await self.request(run)

    async def request(self, run: str) -> Any:
        [row] = await self.inbox.list(Query(run=run, state="open"))
        return row

    async def forks(self, run: str, count: int = 3) -> list[Any]:
        return [await self.request((await self.app.fork(run)).id) for _ in range(count)]

    async def go_on(self, run: str, streamed: bool = False, **options: Any) -> Any:
        state = await RunState.load(self.journal, run, self.agent)
        if not streamed:
            return await Runner.run(self.agent, state, **options)
        result = Runner.run_streamed(self.agent, state, **options)
        async for _ in result.stream_events():
            pass
        return result

    async def kept(self) -> list[str]:
        return [found.what for found in (await check(self.journal)).violations]


async def nobody_has(desk: Desk, row: Any, **options: Any) -> None:
    """A request of a fork shows nobody's vote, confirmation, look or mark."""
    shown = row.request
    assert (shown.votes, shown.confirmed, shown.looked, shown.claim, shown.snoozed) == ((), None, (), None, ())
    await desk.go_on(row.run, **options)
    assert paid == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_one_of_two_votes_before_a_fork_is_no_vote_after_it(streamed: bool) -> None:
    desk = Desk(quorum=2)
    row = await desk.waiting()
    row = await desk.inbox.approve(row, by=ANN)
    for fork in await desk.forks(row.run):
        await nobody_has(desk, fork)
        fork = await desk.inbox.approve(fork, by=BOB)
        assert fork.state == "open"
        await desk.go_on(fork.run, streamed)
        assert paid == []
    assert (await desk.inbox.approve(fork, by=ANN)).state == "approve"
    await desk.go_on(fork.run, streamed)
    assert paid == [5]
    assert await desk.kept() == []


async def test_a_requester_confirms_each_run_anew() -> None:
    desk = Desk(confirm=True, role="ops")
    row = await desk.inbox.approve(await desk.waiting(), by=EVE)
    assert row.request.confirmed is not None
    for fork in await desk.forks(row.run):
        await nobody_has(desk, fork)
        with pytest.raises(NotAllowed, match="must confirm it"):
            await desk.inbox.approve(fork, by=ANN)
    fork = await desk.inbox.approve(fork, by=EVE)
    assert (await desk.inbox.approve(fork, by=ANN)).state == "approve"
    assert await desk.kept() == []


async def test_a_look_at_one_run_is_no_look_at_another() -> None:
    desk = Desk(min_look="5s")
    row = await desk.waiting()
    await desk.inbox.looked(row, by=ANN)
    row = await desk.inbox.take(row, by=ANN)
    row = await desk.inbox.snooze(row, by=BOB, lasts="2h")
    desk.clock.now += 6_000
    [fork, later] = await desk.forks(row.run, 2)
    await nobody_has(desk, fork)
    await nobody_has(desk, later)
    with pytest.raises(NotAllowed, match="looked"):
        await desk.inbox.approve(fork, by=ANN)
    await desk.inbox.looked(fork, by=ANN)
    desk.clock.now += 4_000
    with pytest.raises(NotAllowed, match="left"):
        await desk.inbox.approve(fork, by=ANN)
    desk.clock.now += 1_000
    assert (await desk.inbox.approve(fork, by=ANN)).state == "approve"
    assert await desk.kept() == []


async def test_a_vote_to_edit_or_to_reject_stays_with_its_run() -> None:
    for terms, vote in (
        ({"quorum": 2}, lambda desk, row: desk.inbox.approve(row, by=ANN, edit={"amount": 4})),
        ({"deny_quorum": 2}, lambda desk, row: desk.inbox.reject(row, by=ANN)),
    ):
        desk = Desk(**terms)
        row = await vote(desk, await desk.waiting())
        assert len(row.request.votes) == 1
        [fork] = await desk.forks(row.run, 1)
        await nobody_has(desk, fork)
        assert await desk.kept() == []


async def test_a_fork_of_a_fork_and_an_older_place_have_nobodys_votes_either() -> None:
    desk = Desk(1, 2, quorum=2)
    row = await desk.waiting()
    for who in (ANN, BOB):
        row = await desk.inbox.approve(row, by=who)
    await desk.go_on(row.run)
    row = await desk.inbox.approve(await desk.request(row.run), by=ANN)
    assert paid == [1]
    paid.clear()
    first = await desk.app.fork(row.run)
    second = await desk.app.fork(first.id)
    await nobody_has(desk, await desk.request(second.id))
    steps = len((await RunState.load(desk.journal, second.id, desk.agent)).live.log)
    places = 0
    for at in range(1, steps + 1):
        try:
            fork = await desk.app.fork(second.id, at)
        except UserError:
            continue
        places += 1
        await desk.go_on(fork.id)
        await nobody_has(desk, await desk.request(fork.id))
    assert places >= 4
    assert await desk.kept() == []
    await desk.journal.erase(row.run)
    assert await desk.kept() == []


async def test_what_was_let_run_is_reviewed_in_its_own_run() -> None:
    desk = Desk(5, 6, role="ops", break_glass="chief")
    row = await desk.inbox.approve(await desk.waiting(), by=CHIEF, break_glass=True, note="fire")
    await desk.go_on(row.run)
    assert [each.kind for each in await desk.inbox.list(Query(run=row.run, state="open", kind="review"))] == ["review"]
    fork = await desk.app.fork(row.run)
    assert await desk.inbox.list(Query(run=fork.id, state="open", kind="review")) == []
    assert await desk.kept() == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_never_again_holds_in_a_fork_too(streamed: bool) -> None:
    desk = Desk(1, 2)
    row = await desk.inbox.reject(await desk.waiting(), by=ANN, always=True, message="No.")
    desk_run = row.run
    state = await RunState.load(desk.journal, desk_run, desk.agent)
    places = len(state.live.log)
    await desk.go_on(desk_run, streamed)
    fork = await desk.app.fork(desk_run, places)
    assert [each.revoked for each in await desk.inbox.grants(Query(run=fork.id))] == [False]
    assert (await desk.go_on(fork.id, streamed)).final_output == "done"
    assert paid == []
    assert await desk.kept() == []


async def test_a_fork_of_a_run_that_waits_on_its_session_has_nobodys_vote() -> None:
    desk = Desk(quorum=2)
    kept = dict[str, MemorySession]()
    queue = RunConfig(paused_session="queue")

    def session(name: str) -> MemorySession:
        return kept.setdefault(name, MemorySession(name))

    app = App([desk.agent], desk.journal, worker=False, sessions=session, run_config=queue)
    first, second = [await app.start("clerk", "go", session_id="s", requester=REQUESTER) for _ in range(2)]
    await desk.go_on(first.id, session=kept["s"])
    row = await desk.inbox.approve(await desk.request(first.id), by=ANN)
    for origin in (first, second):
        fork = await app.fork(origin.id)
        assert await desk.kept() == []
        if origin is first:
            await nobody_has(desk, await desk.request(fork.id), session=kept["s"])
    assert (await desk.inbox.get(row.id)).request.votes != (), "the first keeps its own"


async def test_two_copies_of_a_state_share_no_word() -> None:
    desk = Desk(confirm=True, role="ops")
    row = await desk.waiting()
    text = (await RunState.load(desk.journal, row.run, desk.agent)).to_string()
    one, other = [await RunState.from_string(desk.agent, text) for _ in range(2)]
    one.add_input("Be quick.")
    assert other.undelivered.empty
    with pytest.raises(NotAllowed):  # a name on a state proves nothing
        other.approve(other.get_interruptions()[0], by="eve")
    result = await Runner.run(desk.agent, other, journal=desk.journal)
    assert [item.request.confirmed for item in result.interruptions] == [None]
    assert paid == []


async def test_a_conversation_that_is_continued_brings_no_vote_along() -> None:
    desk = Desk(quorum=2)
    row = await desk.inbox.approve(await desk.waiting(), by=ANN)
    state = await RunState.load(desk.journal, row.run, desk.agent)
    paused = await Runner.run(desk.agent, state)
    await desk.inbox.cancel(row.run, by=ANN, why="begin again")
    again = await Runner.run(desk.agent, paused.to_input_list(), journal=desk.journal)
    assert (again.final_output, again.interruptions) == ("done", []), "its model reads that the call was not executed"
    twin = await desk.app.start("clerk", "go", requester=REQUESTER)
    await desk.go_on(twin.id)
    await nobody_has(desk, await desk.request(twin.id))
    assert await desk.kept() == []


async def test_many_alike_are_decided_each_for_itself() -> None:
    desk = Desk(quorum=2)
    row = await desk.inbox.approve(await desk.waiting(), by=ANN)
    await desk.forks(row.run, 2)
    alike = await desk.inbox.alike(row)
    outcomes = await desk.inbox.approve_all(alike, by=BOB)
    assert sorted(each.state for each in await desk.inbox.list()) == ["open", "open"]
    assert len(outcomes) == len(alike)
    assert (await desk.inbox.get(row.id)).state == "approve"
    assert await desk.kept() == []
