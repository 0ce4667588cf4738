"""Limits of several runs: of a person, an agent, a tenant; exact whoever runs at the same time, and given back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Budget,
    Calls,
    Grant,
    Inbox,
    MemoryJournal,
    Policy,
    Rule,
    RunConfig,
    RunState,
    SQLiteSession,
    ToolContext,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    UserError,
    function_tool,
    tool_input_guardrail,
)
from keyturn.audit.checker import check
from keyturn.core import events as ev
from keyturn.core.aside import MOST_LOST
from keyturn.core.errors import Conflict, KeyturnError
from keyturn.deferred import ApprovalRequired
from keyturn.engine.run.log_cache import forget, log_in
from keyturn.journal import open_journal
from keyturn.journal.retention import erase_ended
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.tools.base import OutcomeUnknown
from tests.journal.restoring import loaded_elsewhere
from tests.playing import HOUR, Clock, play
from tests.waiting import never, until

DAY = 86_400_000
RACES = 4


def spending(most: float = 100, of: Any = "tenant", action: Any = "ask", **limit: Any) -> Policy:
    """A policy that lets payments run up to a budget that several runs share."""
    return Policy(Rule(action, tool="pay", over=Budget("amount", most, of=of, **limit)), Rule("allow", tool="pay"))


class Desk:
    """An agent that makes these payments in each run, and what it paid."""

    def __init__(self, *amounts: Any, name: str = "desk", **tool: Any) -> None:
        self.paid: list[Any] = []
        self.amounts = list(amounts)

        @function_tool(**tool)
        def pay(amount: float, to: str = "ada") -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        def reply(items: Any) -> Any:
            made = [function_call("pay", {"amount": each}, call_id=f"c{n}") for n, each in enumerate(self.amounts)]
            return "done" if tool_outputs(items) else made

        self.agent = Agent(name, model=ScriptedModel(reply), tools=[pay])

    async def run(self, journal: Any, policy: Any, streamed: bool = False, who: str | None = None) -> Any:
        """Run until it is done or a call waits."""
        if who is None:
            return await play(self.agent, "go", streamed, journal=journal, policy=policy)
        app = App([self.agent], journal, worker=False)
        run = (await app.start(self.agent.name, "go", requester=who)).id
        return await play(self.agent, await app.state(run), streamed, policy=policy)

    async def again(self, journal: Any, run: str, policy: Any) -> Any:
        forget()
        return await play(self.agent, await RunState.load(journal, run, self.agent), policy=policy)


async def counts(journal: Any) -> dict[str, Any]:
    """What is counted now, by log."""
    rows = [row for row in await journal.runs() if row.agent == "keyturn:quota"]
    logs = [await log_in(journal, row.run) for row in rows]
    return {log.run.id: float(log.run.spent) for log in logs if log.run.taken}


async def spent(journal: Any) -> float:
    return sum((await counts(journal)).values())


# ------------------------------------------------------------------------------------------------- whose calls count


async def test_runs_of_a_tenant_share_a_budget(store: Any, streamed: bool) -> None:
    desk = Desk(60)
    first = await desk.run(store, spending(), streamed)
    second = await desk.run(store, spending(), streamed)
    assert (first.final_output, desk.paid) == ("done", [60])
    [item] = second.interruptions
    assert item.reason == "over the budget of 100 for 'amount' of this tenant"
    assert await store.due() == [], "nobody has to move what only counts"
    report = await check(store)
    assert report.ok, report.violations


async def test_each_person_has_a_budget_of_their_own(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(60)
    policy = spending(of="requester", per="1d")
    for who in ("ann", "bob"):
        assert (await desk.run(journal, policy, streamed, who)).final_output == "done"
    waits = await desk.run(journal, policy, streamed, "ann")
    assert [item.reason for item in waits.interruptions] == [
        "over the budget of 100 for 'amount' in 1d of this requester"
    ]


async def test_a_run_of_nobody_in_particular_is_over_every_budget_of_a_person(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(1)
    assert (await desk.run(journal, spending(of="requester"), streamed)).interruptions
    assert desk.paid == []


async def test_each_agent_has_a_budget_of_its_own(streamed: bool) -> None:
    journal, policy = MemoryJournal(), spending(of="agent")
    for name in ("one", "two"):
        assert (await Desk(100, name=name).run(journal, policy, streamed)).final_output == "done"
    assert (await Desk(1, name="one").run(journal, policy, streamed)).interruptions


async def test_runs_of_a_session_share_a_budget(tmp_path: Any) -> None:
    journal, policy = MemoryJournal(), spending(of="session")
    for name, paused in (("ours", False), ("other", False), ("ours", True)):
        session, desk = SQLiteSession(name, str(tmp_path / "sessions.db")), Desk(60)
        result = await play(desk.agent, "go", journal=journal, policy=policy, session=session)
        assert bool(result.interruptions) == (paused and bool(desk.paid == [])), name
        await session.clear_session()


async def test_tenants_do_not_share_a_budget() -> None:
    whole = MemoryJournal()
    for tenant in ("north", "south"):
        desk = Desk(100)
        assert (await desk.run(whole.of(tenant), spending())).final_output == "done"


async def test_a_name_is_one_budget_for_several_rules_and_outlives_a_change_of_the_rule(streamed: bool) -> None:
    journal = MemoryJournal()
    assert (await Desk(60).run(journal, spending(name="spend"), streamed)).final_output == "done"
    wider = Policy(Rule("ask", over=Budget("amount", 110, of="tenant", name="spend")), Rule("allow"))
    assert (await Desk(60).run(journal, wider, streamed)).interruptions
    assert (await Desk(50).run(journal, wider, streamed)).final_output == "done"
    assert await spent(journal) == 110


async def test_calls_are_counted_as_well(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(1, 1, 1)
    policy = Policy(Rule("deny", over=Calls(4, per="1h", of="tenant")), Rule("allow"))
    for _ in range(2):
        assert (await desk.run(journal, policy, streamed)).final_output == "done"
    assert len(desk.paid) == 4


async def test_without_a_journal_it_is_refused_at_once(streamed: bool) -> None:
    desk = Desk(1)
    with pytest.raises(UserError, match="journal="):
        await play(desk.agent, "go", streamed, policy=spending())
    assert desk.paid == []


# ------------------------------------------------------------------------------------------------ from when, until when


async def test_a_call_that_waits_counts_nothing_and_one_that_a_person_approved_counts(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(150)
    paused = await desk.run(journal, spending(), streamed)
    assert await spent(journal) == 0
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    assert (await play(desk.agent, state, streamed, policy=spending())).final_output == "done"
    assert (desk.paid, await spent(journal)) == ([150], 150)
    assert (await Desk(1).run(journal, spending(), streamed)).interruptions
    assert (await check(journal)).ok


async def test_what_was_rejected_is_not_spent(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(150)
    paused = await desk.run(journal, spending(), streamed)
    state = paused.to_state()
    state.reject(paused.interruptions[0])
    await play(desk.agent, state, streamed, policy=spending())
    assert await spent(journal) == 0


async def test_an_edit_counts_as_it_was_edited(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(150)
    paused = await desk.run(journal, spending(), streamed)
    state = paused.to_state()
    state.approve(paused.interruptions[0], edit={"amount": 30.0, "to": "ada"})
    await play(desk.agent, state, streamed, policy=spending())
    assert await spent(journal) == 30


async def test_a_limit_that_denies_cannot_be_approved_away(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(60)
    asks = Policy(Rule("deny", over=Budget("amount", 100, of="tenant")), Rule("ask"))
    first, second = [await desk.run(journal, asks, streamed) for _ in range(2)]
    for paused in (first, second):
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        await play(desk.agent, state, streamed, policy=asks)
    assert desk.paid == [60], "both waited when there was room, and one of them had it"
    assert await spent(journal) == 60


async def test_what_a_grant_covers_is_counted(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(150)
    paused = await desk.run(journal, spending(), streamed)
    inbox = Inbox(journal, {"desk": desk.agent})
    [row] = await inbox.list(run=paused.run_id)
    await inbox.approve(row, by="ann", grant=Grant(scope="agent"))
    assert (await desk.again(journal, paused.run_id, spending())).final_output == "done"
    assert (await desk.run(journal, spending(), streamed)).final_output == "done"
    assert (desk.paid, await spent(journal)) == ([150, 150], 300)
    assert (await check(journal)).ok


async def test_a_call_that_its_guardrail_refuses_gives_back_what_it_took(streamed: bool) -> None:
    @tool_input_guardrail
    def never(_data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("no")

    journal, desk = MemoryJournal(), Desk(60, tool_input_guardrails=[never])
    assert (await desk.run(journal, spending(), streamed)).final_output == "done"
    assert (desk.paid, await counts(journal)) == ([], {})
    assert (await check(journal)).ok


async def test_a_call_in_doubt_counts_until_somebody_says_that_it_did_not_run() -> None:
    journal = MemoryJournal()

    @function_tool
    def pay(amount: float) -> str:
        raise OutcomeUnknown("the line broke")

    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 60})], "done"]), tools=[pay])
    paused = await play(agent, "go", journal=journal, policy=spending())
    assert await spent(journal) == 60
    state = paused.to_state()
    state.resolve(paused.interruptions[0], "did_not_run")
    assert (await play(agent, state, policy=spending())).final_output == "done"
    assert await spent(journal) == 0


async def test_a_cancelled_run_gives_back_what_it_did_not_begin() -> None:
    journal, desk = MemoryJournal(), Desk(60)
    run = await _let_and_left(journal, desk)
    await Inbox(journal).cancel(run, by="cal")
    assert await spent(journal) == 60
    with pytest.raises(Conflict):
        await desk.again(journal, run, spending())
    assert await spent(journal) == 0
    assert (await check(journal)).ok


async def test_a_cancelled_run_is_due_until_it_gave_back_what_it_took_whoever_died_of_it() -> None:
    clock, desk = Clock(), Desk(60)
    journal = MemoryJournal(clock=clock)
    run = await _let_and_left(journal, desk)
    await Inbox(journal).cancel(run, by="cal")
    for _ in range(MOST_LOST):
        clock.pass_ms(HOUR)
        await journal.claim(run, "a worker that dies", 60_000)
    clock.pass_ms(HOUR)
    async with App([desk.agent], journal, policy=spending()) as app:
        await app.at_work()
        await until(lambda: _nothing_spent(journal))


async def _nothing_spent(journal: Any) -> bool:
    return await spent(journal) == 0


async def test_a_run_that_is_cancelled_while_a_tool_is_at_work_gives_back_what_it_did_not_begin(streamed: bool) -> None:
    """Found by the simulator: what had ended as it was cancelled was taken for a job of what is given back."""
    at_work = asyncio.Event()

    @function_tool
    async def slow() -> str:
        at_work.set()
        await never()
        return "done"

    @function_tool
    def pay(amount: float) -> str:
        return f"paid {amount}"

    calls = [function_call("slow", {}, call_id="c0"), function_call("pay", {"amount": 60}, call_id="c1")]
    agent = Agent("desk", model=ScriptedModel([calls]), tools=[slow, pay])
    config = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1), policy=spending())
    journal = MemoryJournal()
    running = asyncio.ensure_future(play(agent, "go", streamed, journal=journal, run_config=config))
    await at_work.wait()
    await until(lambda: spent(journal))
    [row] = [row for row in await journal.runs() if row.agent == "desk"]
    await Inbox(journal).cancel(row.run, by="cal")
    with pytest.raises(KeyturnError):
        await running
    assert await spent(journal) == 0
    assert (await check(journal)).ok


async def _let_and_left(journal: Any, desk: Desk) -> str:
    """A run whose process died just before it began the call that it had let run."""

    class Dies(Exception):
        pass

    kept = journal.append

    async def append(run: str, expected: int, lines: Any, *more: Any) -> None:
        if any(b'"CallStarted"' in line for line in lines):
            raise Dies
        await kept(run, expected, lines, *more)

    journal.append = append
    with pytest.raises(Dies):
        await desk.run(journal, spending())
    del journal.append
    [row] = [row for row in await journal.runs() if row.agent == "desk"]
    return row.run


async def test_a_call_that_asks_from_inside_its_tool_is_counted_once_when_it_goes_on(streamed: bool) -> None:
    """What it took is given back while it asks, and taken anew before it goes on: never in the other order."""
    journal, done = MemoryJournal(), list[float]()

    @function_tool
    def pay(context: ToolContext[Any], amount: float) -> str:
        if not context.tool_call_approved:
            raise ApprovalRequired
        done.append(amount)
        return "paid"

    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 60})], "done"]), tools=[pay])
    paused = await play(agent, "go", streamed, journal=journal, policy=spending())
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    assert (await play(agent, state, streamed, policy=spending())).final_output == "done"
    assert (done, await spent(journal)) == ([60], 60)
    assert (await Desk(60).run(journal, spending(), streamed)).interruptions
    assert (await check(journal)).ok


async def test_a_process_that_dies_after_it_counted_and_before_it_recorded_counts_once() -> None:
    desk = Desk(60)
    journal: Any = MemoryJournal()
    kept, died = journal.append, [False]

    async def append(run: str, expected: int, lines: Any, *more: Any) -> None:
        if any(b'"quotas"' in line for line in lines) and not died[0]:
            died[0] = True
            raise RuntimeError("the lights went out")
        await kept(run, expected, lines, *more)

    journal.append = append
    with pytest.raises(RuntimeError):
        await desk.run(journal, spending())
    assert (desk.paid, await spent(journal)) == ([], 60)
    [row] = [row for row in await journal.runs() if row.agent == "desk"]
    assert (await desk.again(journal, row.run, spending())).final_output == "done"
    assert (desk.paid, await spent(journal)) == ([60], 60)


class Stalling:
    """A journal of a process that stands still before it records that a call is let run, until it is let go on."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.stands, self.goes_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, run: str, expected: int, lines: Any, *more: Any, **named: Any) -> None:
        if any(b"CallScreened" in line for line in lines) and not self.stands.is_set():
            self.stands.set()
            await self.goes_on.wait()
        await self._journal.append(run, expected, lines, *more, **named)


@pytest.mark.parametrize("most", [100, 50])
async def test_a_process_that_lost_its_run_returns_nothing_of_what_ran_since(most: float) -> None:
    """It counted the call and stood still past its lease; another process took the run over and ran the call."""
    time = [1_000_000]
    journal, policy = MemoryJournal(clock=lambda: time[0]), spending(100)
    stalling, desk = Stalling(journal), Desk(60)
    first = asyncio.ensure_future(desk.run(stalling, policy))
    await stalling.stands.wait()
    time[0] += 3_600_000
    [row] = [row for row in await journal.runs() if row.agent == "desk"]
    state = await loaded_elsewhere(journal, row.run, desk.agent)
    await play(desk.agent, state, policy=spending(most))
    stalling.goes_on.set()
    with pytest.raises(Conflict):
        await first
    assert desk.paid == ([60] if most == 100 else [])
    other = Desk(60, name="other")
    await other.run(journal, policy)
    assert other.paid == ([] if most == 100 else [60]), "what ran is counted, and what was not let run is not"
    assert (await check(journal)).ok


async def test_a_window_moves_on_and_what_is_older_counts_no_more() -> None:
    now = [1_700_000_000_000]
    journal, desk = MemoryJournal(clock=lambda: now[0]), Desk(60)
    policy, times = spending(per="1h"), list[bool]()
    for minutes in (0, 50, 9, 2):  # an hour and a minute after the first
        now[0] += minutes * 60_000
        times.append(bool((await desk.run(journal, policy)).interruptions))
    assert times == [False, True, True, False]
    assert (await check(journal)).ok


async def test_logs_of_a_window_that_is_over_are_erased_and_one_without_a_window_never() -> None:
    now = [1_700_000_000_000]
    journal, desk = MemoryJournal(clock=lambda: now[0]), Desk(1)
    await desk.run(journal, spending(per="1h"))
    await desk.run(journal, spending(name="for ever"))
    now[0] += 3 * 3_600_000
    assert await erase_ended(journal, now[0]) >= 3
    assert list((await counts(journal)).values()) == [1]


async def test_what_cannot_be_counted_is_over_the_limit(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(1)
    await desk.run(journal, spending(), streamed)
    [log] = await counts(journal)
    await journal.erase(log)
    assert (await desk.run(journal, spending(), streamed)).interruptions
    assert desk.paid == [1]


async def test_a_policy_in_shadow_counts_and_holds_nobody_back(streamed: bool) -> None:
    journal, desk = MemoryJournal(), Desk(60)
    shadow = Policy(*spending().rules, shadow=True)
    results = [await desk.run(journal, shadow, streamed) for _ in range(3)]
    assert desk.paid == [60, 60, 60]
    said = [_shadow_of(await log_in(journal, result.run_id)) for result in results]
    assert said == ["allow", "ask", "ask"]


def _shadow_of(log: Any) -> str:
    [event] = [event for step in log.steps for event in step.events if isinstance(event, ev.CallScreened)]
    return "" if event.shadow is None else event.shadow.action


# ---------------------------------------------------------------------------------------------------------------- races


@pytest.fixture
async def doors(store_url: str) -> AsyncGenerator[list[Any]]:
    """One store as several processes have it open: each has a journal object and caches of its own."""
    first: Any = open_journal(store_url)
    if isinstance(first, MemoryJournal):
        yield [first]
        return
    opened: list[Any] = [first, *(open_journal(store_url) for _ in range(3))]
    yield opened
    for journal in opened:
        await journal.close()


async def test_calls_that_race_for_the_last_room_never_get_more(doors: list[Any]) -> None:
    for race in range(RACES):
        policy, desk = spending(name=f"race {race}"), Desk(30)
        results = await asyncio.gather(*(desk.run(doors[n % len(doors)], policy) for n in range(8)))
        assert sum(desk.paid) == 90, "as much as there was room for, and no more"
        assert sum(bool(result.interruptions) for result in results) == 5
    assert (await check(doors[0])).ok


@pytest.mark.trial
@pytest.mark.sweep
@pytest.mark.timeout(600)
async def test_a_thousand_calls_at_once_are_never_over(doors: list[Any], sweep_size: int) -> None:
    """A thousand in `make sweep COUNT=1000`, thirty in each `make test`."""
    count = 1_000 if sweep_size >= 1_000 else 30
    policy, desk = spending(count * 3 // 5), Desk(1)
    results = await asyncio.gather(*(desk.run(doors[n % len(doors)], policy) for n in range(count)))
    assert sum(desk.paid) == count * 3 // 5
    assert sum(bool(result.interruptions) for result in results) == count - count * 3 // 5
    assert (await check(doors[0])).ok


async def test_approvals_that_race_for_the_last_room_of_a_limit_that_denies(doors: list[Any]) -> None:
    policy = Policy(Rule("deny", over=Budget("amount", 100, of="tenant")), Rule("ask"))
    desk = Desk(40)
    paused = [await desk.run(doors[0], policy) for _ in range(6)]
    states = [await RunState.load(doors[n % len(doors)], each.run_id, desk.agent) for n, each in enumerate(paused)]
    for state in states:
        state.approve(state.get_interruptions()[0])
    await asyncio.gather(*(play(desk.agent, state, policy=policy) for state in states))
    assert desk.paid == [40, 40]


class Together:
    """A policy that waits, of two calls that were approved, until both are judged: then they are counted."""

    counts = counts_for_several_runs = True

    def __init__(self, policy: Policy) -> None:
        self.policy, self.shares, self.judged = policy, policy.shares, asyncio.Barrier(2)
        self.waits = False

    async def __call__(self, call: Any, context: Any) -> Any:
        verdict = self.policy(call, context)
        if self.waits and call.approved:
            self.waits = not self.judged.n_waiting
            await self.judged.wait()
        return verdict


@pytest.mark.parametrize("names", [("one", "one"), (None, None)])
async def test_approvals_that_race_are_held_to_the_limit_that_denies_beside_one_that_asks(
    names: Any, streamed: bool
) -> None:
    """The rules share a count; a person approves more than the one allows, and nobody more than the other."""
    over = [Budget("amount", most, of="tenant", name=name) for most, name in zip((100, 50), names, strict=True)]
    policy = Together(Policy(Rule("deny", over=over[0]), Rule("ask", over=over[1]), Rule("allow")))
    journal, desk = MemoryJournal(), Desk(30)
    assert (await desk.run(journal, policy, streamed)).final_output == "done"
    paused = [await desk.run(journal, policy, streamed) for _ in range(3)]
    states = [each.to_state() for each in paused]
    for state, each in zip(states, paused, strict=True):
        state.approve(each.interruptions[0])
    assert (await play(desk.agent, states.pop(), streamed, policy=policy)).final_output == "done"
    policy.waits = True
    await asyncio.gather(*(play(desk.agent, state, streamed, policy=policy) for state in states))
    assert (sum(desk.paid), await spent(journal)) == (90, 90)
    assert (await check(journal)).ok


async def test_a_limit_in_shadow_holds_and_adds_nothing_beside_one_that_decides(streamed: bool) -> None:
    """Both are limits of one count: of the agent's own policy, which is tried, and of the run's."""

    def limit(argument: str, most: float, **shadow: bool) -> Policy:
        rule = Rule("deny", tool="pay", over=Budget(argument, most, of="tenant", name="one"))
        return Policy(rule, default="allow", **shadow)

    paid: list[float] = []

    @function_tool
    def pay(amount: float, fee: float) -> str:
        paid.append(amount)
        return "paid"

    journal = MemoryJournal()
    for _ in range(4):
        replies = [[function_call("pay", {"amount": 40, "fee": 70})], "done"]
        inner = Agent("inner", model=ScriptedModel(replies), tools=[pay])
        nested = inner.as_tool("nested", "Pay.", run_config=RunConfig(policy=limit("fee", 9, shadow=True)))
        outer = Agent(
            "outer", model=ScriptedModel([[function_call("nested", {"input": "go"})], "done"]), tools=[nested]
        )
        await play(outer, "go", streamed, journal=journal, policy=limit("amount", 120))
    assert (paid, await spent(journal)) == ([40, 40, 40], 120)
