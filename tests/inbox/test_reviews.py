"""Reviews: others are asked about what was let run, after the glass was broken and of a sample; no call waits."""

from __future__ import annotations

from typing import Annotated, Any, cast

import pytest

from keyturn import (
    Agent,
    App,
    Conflict,
    Decider,
    Grant,
    Inbox,
    Insights,
    MemoryJournal,
    NotAllowed,
    NotPending,
    Policy,
    Runner,
    RunState,
    Secret,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.audit.decisions.search import SearchTerms, search
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.policies.rules import allow, ask, deny
from tests.inbox.paying import ANN, CHIEF, EVE, paid, paying


def clerk(*amounts: int, **terms: Any) -> Agent[Any]:
    tool = paying(**terms)
    replies: list[Any] = [[function_call("pay", {"amount": each}, call_id=f"c{each}")] for each in amounts or (5,)]
    return Agent("clerk", model=ScriptedModel([*replies, "done"]), tools=[tool])


async def played(agent: Agent[Any], given: Any, streamed: bool, **words: Any) -> Any:
    if not streamed:
        return await Runner.run(agent, given, **words)
    result = Runner.run_streamed(agent, given, **words)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("streamed", [False, True])
async def test_after_the_glass_was_broken_others_are_asked(store: Any, streamed: bool) -> None:
    agent, inbox = clerk(role="ops", break_glass="chief"), Inbox(store)
    run = (await played(agent, "go", streamed, journal=store)).run_id
    [row] = await inbox.list()
    assert (await inbox.approve(row, by=CHIEF, break_glass=True, note="fire")).state == "approve"
    [asked] = await inbox.list()
    assert (asked.kind, asked.tool, asked.params) == ("review", "pay", {"amount": 5})
    assert (asked.request.reviews, asked.request.not_for) == ("glass", ("cyd",))
    assert asked.request.former is not None
    assert (asked.request.former.by, asked.request.former.note) == ("cyd", "fire")
    assert (await inbox.list(for_=ANN), await inbox.list(for_=CHIEF), await inbox.list(for_=EVE)) == ([asked], [], [])
    state = await RunState.load(store, run, agent)
    assert (await played(agent, state, streamed)).final_output == "done"
    assert paid == [5], "nothing waits for a review"
    assert (await store.runs(Query(run=run)))[0].status == "finished"
    assert (await check(store)).ok
    assert (await inbox.review(asked, "wrong", by=ANN, note="there was no fire")).state == "wrong"
    assert (paid, await inbox.list(), (await check(store)).violations) == ([5], [], [])
    found = [entry for entry in await search(store, SearchTerms()) if entry.what == "review"]
    assert [(entry.by, entry.verdict, entry.tool, entry.note) for entry in found] == [
        ("ann", "wrong", "pay", "there was no fire")
    ]
    report = await Insights(store).report()
    assert (report.total.reviewed, report.total.disagreement_rate, report.total.ended) == (1, 1.0, 1)
    assert await store.due() == []


async def test_who_decided_it_does_not_review_it() -> None:
    store = MemoryJournal()
    agent, inbox = clerk(role="ops", break_glass="chief"), Inbox(store)
    async with App([agent], store) as app:
        run = (await app.start("clerk", "go", requester="dan")).id
        await app.wait(run)
    [row] = await inbox.list()
    await inbox.approve(row, by=CHIEF, break_glass=True, note="fire")
    [asked] = await inbox.list()
    kept = [
        Decider("cyd", roles=("ops", "chief"), strength="authenticated"),
        Decider("CYD", roles=("ops",), strength="authenticated"),
        Decider("bob", roles=("ops",), strength="authenticated", acting_for="cyd"),
        Decider("dan", roles=("ops",), strength="authenticated"),
        Decider("gus", roles=("ops",), strength="authenticated", requester=True),
        Decider("ann", roles=("ops",)),
        EVE,
        "ann",
    ]
    for who in kept:
        with pytest.raises(NotAllowed):
            await inbox.review(asked, "right", by=who)
    for word in (inbox.approve, inbox.reject):
        with pytest.raises(NotPending, match="review"):
            await word(asked, by=ANN)
    with pytest.raises(NotPending, match="is not a review"):
        await inbox.review(row, "right", by=ANN)
    with pytest.raises(UserError, match="right"):
        await inbox.review(asked, cast("Any", "fine"), by=ANN)
    with pytest.raises(UserError, match="note="):
        await inbox.review(asked, "wrong", by=ANN)
    with pytest.raises(Conflict):
        await inbox.review(asked.id, "right", by=ANN, digest=row.digest)
    with pytest.raises(UserError, match="name what was shown"):
        await inbox.review(asked.id, "right", by=ANN)
    await inbox.review(asked, "right", by=ANN)
    assert (await inbox.review(asked, "right", by=ANN)).state == "right", "a repeated word is harmless"
    bob = Decider("bob", roles=("ops",), strength="authenticated")
    with pytest.raises(Conflict, match="right by ann") as told:
        await inbox.review(asked, "wrong", by=bob, note="no")
    assert told.value.winner == "ann"
    assert (await check(store)).ok


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_sample_of_what_a_rule_lets_run(store: Any, streamed: bool) -> None:
    policy, inbox = Policy(allow(tool="pay", review=1.0)), Inbox(store)
    result = await played(clerk(5, 6), "go", streamed, journal=store, policy=policy)
    assert (result.final_output, paid) == ("done", [5, 6])
    rows = await inbox.list(kind="review")
    assert [(row.params, row.request.reviews, row.request.not_for) for row in rows] == [
        ({"amount": 5}, "sample", ()),
        ({"amount": 6}, "sample", ()),
    ]
    assert rows[0].request.former is not None
    assert rows[0].request.former.by == "policy:1"
    await inbox.review(rows[0], "right", by=EVE)
    assert (await check(store)).ok
    assert (await store.runs(Query(run=result.run_id)))[0].waiting == 0


async def test_the_share_is_a_share_and_drawn_once_for_all_who_replay() -> None:
    store = MemoryJournal()
    policy = Policy(allow(tool="pay", review=0.3))
    inbox = Inbox(store)
    for _ in range(10):
        await Runner.run(clerk(*range(20)), "go", journal=store, policy=policy, max_turns=30)
    rows = await inbox.list(Query(state="open", kind="review", limit=1000))
    assert 30 <= len(rows) <= 90, "of 200, some 60"
    assert (await check(store)).ok, "the checker draws the same"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_sample_of_what_a_grant_lets_run_asks_others_than_its_giver(streamed: bool) -> None:
    store = MemoryJournal()
    agent, inbox = clerk(5, 6), Inbox(store)
    run = (await played(agent, "go", streamed, journal=store)).run_id
    [row] = await inbox.list()
    await inbox.approve(row, by=ANN, grant=Grant(review=1.0))
    result = await played(agent, await RunState.load(store, run, agent), streamed)
    assert (result.final_output, paid) == ("done", [5, 6])
    [asked] = await inbox.list()
    assert (asked.params, asked.request.not_for) == ({"amount": 6}, ("ann",)), "a person decided the first one"
    with pytest.raises(NotAllowed, match="they approved it"):
        await inbox.review(asked, "right", by=ANN)
    await inbox.review(asked, "right", by=EVE)
    assert (await check(store)).ok


async def test_a_rule_that_asks_samples_what_a_grant_covers() -> None:
    store = MemoryJournal()
    agent, inbox, policy = clerk(5, 6), Inbox(store), Policy(ask(tool="pay", review=1.0))
    run = (await Runner.run(agent, "go", journal=store, policy=policy)).run_id
    [row] = await inbox.list()
    await inbox.approve(row, by=ANN, grant=Grant())
    await Runner.run(agent, await RunState.load(store, run, agent), policy=policy)
    assert [each.params for each in await inbox.list(kind="review")] == [{"amount": 6}]
    assert (await check(store)).ok


async def test_a_review_stays_open_when_its_run_is_cancelled() -> None:
    store = MemoryJournal()
    agent, inbox = clerk(5, 6), Inbox(store)
    policy = Policy(allow(tool="pay", where={"amount": 5}, review=1.0), ask())
    run = (await Runner.run(agent, "go", journal=store, policy=policy)).run_id
    await inbox.cancel(run, by=ANN)
    [asked] = await inbox.list()
    assert (asked.kind, (await inbox.review(asked, "right", by=ANN)).state) == ("review", "right")
    assert (await check(store)).ok


async def test_secrets_are_shown_to_nobody_and_notices_are_written(store: Any) -> None:
    def log_in(password: Annotated[str, Secret]) -> str:
        """Log in."""
        return "in"

    tool = function_tool(log_in)
    model = ScriptedModel([[function_call("log_in", {"password": "hunter2"}, call_id="c")], "done"])
    await Runner.run(Agent("clerk", model=model, tools=[tool]), "go", journal=store, policy=Policy(allow(review=1.0)))
    [asked] = await Inbox(store).list()
    assert "hunter2" not in repr(asked)
    assert (await check(store)).ok


@pytest.mark.parametrize("wrong", [-0.1, 1.1, True, "often", float("nan")])
def test_a_share_that_is_none_is_refused(wrong: Any) -> None:
    for make in (lambda: allow(review=wrong), lambda: Grant(review=wrong)):
        with pytest.raises(UserError, match="share from 0 to 1"):
            make()


def test_what_is_denied_is_not_reviewed() -> None:
    with pytest.raises(UserError, match="did not run"):
        deny(tool="pay", review=0.5)
