"""Drills in the inbox: they look like any other request, nothing of one ever runs, and whoever answers one is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from secrets import token_hex
from typing import Any, cast

import msgspec
import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Conflict,
    Decider,
    Drill,
    Drills,
    Grant,
    Inbox,
    Insights,
    KeyturnError,
    MemoryJournal,
    NotAllowed,
    RunConfig,
    Runner,
    RunState,
    UsageLimits,
    UserError,
    Verdict,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.audit.decisions.search import SearchTerms, search
from keyturn.core import commands as cm
from keyturn.core.seal import Ring
from keyturn.engine.run.log_cache import log_in
from keyturn.inbox.drills import DrillService
from keyturn.journal import memory
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.presenting.trail import trail_of
from keyturn.server.api.run_lines import shown_line
from tests.table import each
from tests.waiting import until

ANN = Decider("ann", roles=("ops",), strength="authenticated")
BOB = Decider("bob", roles=("ops",), strength="authenticated")
ARGUMENTS = {"to": "mallory", "amount": 900}
paid: list[str] = []


@pytest.fixture(autouse=True)
def nothing_was_paid() -> None:
    paid.clear()


def clerk(**terms: Any) -> Agent[Any]:
    def pay(to: str, amount: int) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    tool = function_tool(pay, needs_approval=True, approval=Approval(**terms) if terms else None)
    model = ScriptedModel([[function_call("pay", ARGUMENTS, call_id="call_" + "0" * 24)], "done", "more", "more"])
    return Agent("clerk", model=model, tools=[tool])


def drill(**more: Any) -> Drill:
    return Drill(**({"agent": "clerk", "tool": "pay", "arguments": ARGUMENTS, "input": "Pay them"} | more))


def service_of(app: App, **more: Any) -> Any:
    """The service that opens drills of this app."""
    made: Any = App([*app.agents.values()], app.journal, run_config=app.run_config, policy=app.policy, worker=False)
    made.drills = Drills([drill(**more)], every=1, seed=token_hex(8))
    return made._drilling


async def opened(store: Any, agent: Agent[Any], **more: Any) -> Any:
    """Open one drill in this store, and return its row."""
    service = DrillService(store, {"clerk": agent}, Drills([drill(**more)], every=1, seed=token_hex(8)))
    run = await service.open_due(await ends(store))
    [row] = await store.requests(Query(run=run))
    return row


async def ends(store: Any, before: int = 0) -> int:
    """The last moment of a period of a second that is over."""
    return (await store.now() // 1_000 - before) * 1_000 - 1


@contextlib.asynccontextmanager
async def at_work(store: Any, agent: Agent[Any], **more: Any) -> AsyncGenerator[App]:
    async with App([agent], store, **more) as app:
        yield app


async def test_it_looks_like_any_other_and_is_told_at_once(store: Any) -> None:
    agent, inbox = clerk(role="ops", quorum=2), Inbox(store)
    row = await opened(store, agent)
    assert (row.kind, row.state, row.tool, row.params) == ("approval", "open", "pay", ARGUMENTS)
    assert await inbox.list(for_=ANN) == [row]
    assert "drill" not in repr(row) + repr(await inbox.get(row.id)) + repr(await inbox.alike(row, by=ANN))
    done = await inbox.approve(row, by=ANN)
    assert (done.state, done.by) == ("drill_failed", "ann")
    assert (await store.runs(Query(run=row.run)))[0].status == "finished"
    with pytest.raises(Conflict, match="this was a drill, and ann answered it"):
        await inbox.reject(row, by=BOB)
    with pytest.raises(KeyturnError, match="this was a drill"):
        await inbox.withdraw(row, by=ANN)
    assert (await inbox.approve(row, by=ANN)).state == "drill_failed", "a repeated word is harmless"
    assert (paid, (await check(store)).violations) == ([], [])


async def test_who_rejects_it_passed_and_the_rate_is_by_person(store: Any) -> None:
    agent, inbox = clerk(), Inbox(store)
    for word, who in ((inbox.approve, ANN), (inbox.reject, ANN), (inbox.reject, BOB)):
        row = await opened(store, agent)
        await word(row, by=who)
    report = await Insights(store).report()
    assert {each.name: (each.drills, each.drills_passed) for each in report.people} == {"ann": (2, 0.5), "bob": (1, 1)}
    assert (report.total.drills, report.total.decided, report.total.approval_rate) == (3, 0, None)
    found = [entry for entry in await search(store, SearchTerms()) if entry.what == "drill"]
    assert sorted((entry.by, entry.verdict) for entry in found) == [
        ("ann", "drill_failed"),
        ("ann", "drill_passed"),
        ("bob", "drill_passed"),
    ]
    assert (await check(store)).violations == []


def silent(_call: Any, _context: object) -> None:
    """A policy that has nothing to say of any call."""


def risky(_call: Any, _context: object) -> Verdict:
    return Verdict("ask", "it pays", by="2")


UNDER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no policy": ({}, {}),
    "a policy that lets the tool ask": ({"policy": silent}, {}),
    "a policy that asks": ({"policy": risky}, {"by": "policy:2", "reason": "it pays"}),
    "limits": ({"run_config": RunConfig(usage_limits=UsageLimits(requests=5))}, {}),
}


@each("under", UNDER)
async def test_all_that_is_read_of_it_is_as_of_a_true_one(under: str) -> None:
    """Field by field against a true request of the same agent: names, times and keys differ, and nothing else."""
    store = MemoryJournal()
    agent = clerk(role="ops", quorum=2, expires="2h")
    options, template = UNDER[under]
    async with at_work(store, agent, **options) as app:
        true = (await app.start("clerk", "Pay them", requester="dan")).id
        await app.wait(true)
        mine = await service_of(app, requester="dan", **template).open_due(await ends(store))
        await until(lambda: idle(app, store))  # a worker has looked at both
        seen: list[Any] = []
        for run in (true, str(mine)):
            log = await log_in(store, run)
            [row] = await store.requests(Query(run=run))
            lines = [shown_line(at, log.run, step) for at, step in enumerate(log.steps)]
            [call] = log.run.calls.values()
            seen.append(
                [
                    sorted(msgspec.to_builtins(row)),
                    {**msgspec.json.decode(row.body), "label": ""},
                    {**msgspec.to_builtins(await app.get(run)), "run": "", "started_at": 0, "updated_at": 0},
                    [[sorted(event) for event in line.events] for line in lines],
                    [[event["event"] for event in line.events] for line in lines],
                    [(mark.word, mark.by) for mark in trail_of(log.steps, row.call)],
                    len(row.id), len(row.run), len(row.request.label),
                    {**msgspec.to_builtins(call.proposal), "label": ""},
                    (call.by, call.reason, call.terms, call.preview, log.run.about, log.run.limits),
                ]
            )  # fmt: skip
            assert "drill" not in repr(lines).lower()
        assert seen[0] == seen[1]
    assert (await check(store)).violations == []


async def idle(app: App, store: Any) -> bool:
    return not app.busy and not await store.due()


@pytest.mark.each
@pytest.mark.parametrize("how", ["approve", "grant", "edit", "always", "fork", "fork at 1", "resume", "send", "cancel"])
async def test_nothing_of_it_ever_runs(how: str) -> None:
    store = MemoryJournal()
    agent = clerk()
    async with at_work(store, agent) as app:
        row = await opened(store, agent)
        inbox = app.inbox
        if how.startswith("fork"):
            fork = await app.fork(row.run, 1 if how.endswith("1") else None)
            [row] = await store.requests(Query(run=fork.id))
        elif how == "resume":
            await app.resume(row.run, 50)
        elif how == "send":
            await app.send(row.run, "and go on")
        elif how == "cancel":
            await app.cancel(row.run, by=ANN)
            with pytest.raises(KeyturnError):
                await inbox.approve(row, by=ANN)
        if how == "edit":
            done = await inbox.approve(row, by=ANN, edit={"to": "ann", "amount": 1})
        elif how == "always":
            done = await inbox.reject(row, by=ANN, always=True)
        elif how != "cancel":
            done = await inbox.approve(row, by=ANN, grant=Grant(scope="agent") if how == "grant" else None)
        else:
            done = await inbox.get(row.id)
        wanted = {"always": "drill_passed", "cancel": "void"}.get(how, "drill_failed")
        await until(lambda: idle(app, store))
        assert (done.state, paid, await inbox.grants()) == (wanted, [], [])
        true = (await app.start("clerk", "Pay them")).id
        await app.wait(true)
        assert true in {row.run for row in await inbox.list()}, "no standing decision came of it"
        if how == "approve":
            with pytest.raises(Conflict, match="this was a drill"):
                await app.fork(row.run)
    assert (await check(store)).violations == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_state_of_it_runs_nothing_either(streamed: bool) -> None:
    store = MemoryJournal()
    agent = clerk()
    row = await opened(store, agent)
    state = await RunState.load(store, row.run, agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    if streamed:
        result: Any = Runner.run_streamed(agent, state)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, state)
    assert (paid, result.interruptions, result.final_output) == ([], [], None)
    assert (await check(store)).violations == []


async def test_one_is_opened_in_each_period_however_many_processes_there_are(store: Any) -> None:
    agent = clerk()
    drills = Drills([drill(), drill(input="Pay the other")], every=1, at_most=100, seed=token_hex(8))
    services = [DrillService(store, {"clerk": agent}, drills) for _ in range(20)]
    for before in (4, 3, 2, 1):
        now = await ends(store, before)
        made = await asyncio.gather(*(service.open_due(now) for service in services))
        assert sum(run is not None for run in made) == 1
        assert {await service.open_due(now) for service in services} == {None}
    rows = await store.requests(Query(state="open"))
    assert len({row.run for row in rows}) == len(rows) == 4
    assert (await check(store)).violations == []


OLD, NEW = b"an-old-secret" * 3, b"a-new-secret" * 3


@each("before, after", [([OLD], [NEW, OLD]), ([OLD, NEW], [NEW, OLD]), ([NEW, OLD], [OLD, NEW])])
async def test_one_is_opened_in_a_period_in_which_keys_are_rotated(before: list[bytes], after: list[bytes]) -> None:
    store = MemoryJournal()
    drills = Drills([drill()], every=1, at_most=1, lasts=2, seed="s")
    now = await ends(store)
    opened: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:
        for keys, at in ((before, now), (after, now), (after, now + 1_000)):
            patch.setattr(memory, "_RING", Ring(keys))
            opened.append(await DrillService(store, {"clerk": clerk()}, drills).open_due(at) is not None)
    assert opened == [True, False, False], "one in its period, and it counts as one that waits"


async def test_never_more_than_a_few_wait_and_they_end_quietly() -> None:
    now = [1_000_000_999]
    store = MemoryJournal(clock=lambda: now[0])
    service = DrillService(store, {"clerk": clerk()}, Drills([drill()], every=1, at_most=2, lasts=3, seed=token_hex(8)))
    inbox = Inbox(store)
    runs: list[str | None] = []
    for _ in range(8):
        runs.append(await service.open_due())
        assert len(await inbox.list()) <= 2
        now[0] += 1_000
        for row in await inbox.list():
            await inbox.tell(row.run, cm.Tick())  # what a worker does that the run's clock has woken
    assert [run is not None for run in runs] == [True, True, False, True, True, False, True, True]
    ended = [row for row in await store.requests(Query(limit=100)) if row.state != "open"]
    assert {(row.state, row.by) for row in ended} == {("expire", "clock")}
    assert (await check(store)).violations == []


async def test_an_app_opens_them_by_itself_and_a_worker_ends_them() -> None:
    store = MemoryJournal()
    drills = Drills([drill()], every=1, at_most=100, lasts=1, seed=token_hex(8))
    async with at_work(store, clerk(), drills=drills):
        await until(lambda: _states(store, "open"))
        await until(lambda: _states(store, "expire"))
    assert (paid, (await check(store)).violations) == ([], [])


async def _states(store: Any, state: str) -> Any:
    return [row for row in await store.requests(Query(limit=100)) if row.state == state]


async def test_who_may_not_decide_it_does_not_learn_of_it() -> None:
    store = MemoryJournal()
    agent, inbox = clerk(role="ops"), Inbox(store)
    row = await opened(store, agent)
    with pytest.raises(NotAllowed) as told:
        await inbox.approve(row, by="eve")
    assert "drill" not in str(told.value)
    assert (await inbox.get(row.id)).state == "open"


def test_the_times_and_names_are_nobodys_to_foresee() -> None:
    agent = clerk()
    one = DrillService(MemoryJournal(), {"clerk": agent}, Drills([drill()], every="1d", seed="a"))
    drills, other = cast("Any", one)._drills, Drills([drill()], every="1d", seed="b")
    service: Any = one
    offsets = {service._opens(drills, day) - day * drills.every_ms for day in range(50)}
    assert len(offsets) == 50
    assert service._name(drills, 7, "run") == service._name(drills, 7, "run") != service._name(other, 7, "run")


@pytest.mark.each
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Drills([]), "at least one"),
        (lambda: Drills([drill(input=" ")]), "input="),
        (lambda: Drills([drill(by="ann")]), "by="),
        (lambda: Drills([drill()], at_most=0), "at_most="),
        (lambda: Drills([drill()], every="1h", lasts="500d"), "lasts="),
        (lambda: Drills([drill()], every=0.01), "every="),
        (lambda: App([clerk()], MemoryJournal(), drills=Drills([drill(agent="boss")])), "'boss'"),
        (lambda: App([clerk()], MemoryJournal(), drills=Drills([drill(tool="fly")])), "'fly'"),
        (lambda: App([clerk()], MemoryJournal(), drills=Drills([drill(arguments={"to": 5})])), "do not fit"),
        (lambda: App([clerk()], MemoryJournal(), drills=cast("Any", [drill()])), "drills="),
        (lambda: App([clerk()], MemoryJournal(), drills=Drills([drill(terms=Approval(confirm=True))])), "requester="),
    ],
)
def test_what_is_no_drill_is_refused_with_the_remedy(wrong: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        wrong()
