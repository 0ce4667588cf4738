"""A circuit breaker: after so many rejections, denials or failures calls ask or are denied, until it closes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from keyturn import (
    Agent,
    Breaker,
    Budget,
    Decider,
    Inbox,
    MemoryJournal,
    Policy,
    Rule,
    RunState,
    UserError,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.core.errors import StorageError
from keyturn.core.policy import BY_BREAKER
from keyturn.engine.driving.quota_logs import QuotaCount, Taker, quota_count
from keyturn.engine.run.log_cache import forget
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.playing import go_on, play
from tests.waiting import until

ANN = Decider("ann", strength="authenticated")


def breaking(most: int = 2, action: Any = "deny", per: str = "10m", **limit: Any) -> Policy:
    """A policy with a breaker on payments, which are asked about where it is closed if they are large."""
    over = Breaker(most, per=per, **limit)
    large = Rule("deny", tool="pay", where={"amount": {"gt": 1000}}, reason="too much")
    asks = Rule("ask", tool="pay", where={"amount": {"gt": 100}})
    return Policy(Rule(action, tool="pay", over=over), large, asks, Rule("allow", tool="pay"))


class Desk:
    """An agent that makes these payments one after the other, and what it paid; 13 fails."""

    def __init__(self, *amounts: int, name: str = "desk") -> None:
        self.paid: list[int] = []

        @function_tool
        def pay(amount: int) -> str:
            if amount == 13:
                raise ValueError("no such account")
            self.paid.append(amount)
            return "paid"

        replies: list[Any] = [
            [function_call("pay", {"amount": each}, call_id=f"c{n}")] for n, each in enumerate(amounts)
        ]
        self.agent = Agent(name, model=ScriptedModel([*replies, "done", "done"]), tools=[pay])

    async def run(self, journal: Any, policy: Policy, streamed: bool = False) -> Any:
        return await play(self.agent, "go", streamed, journal=journal, policy=policy, max_turns=30)


async def screened(store: Any, run: str) -> list[Any]:
    log = await RunState.load(store, run, Desk().agent)
    return [event for step in log.live.log.steps for event in step.events if type(event).__name__ == "CallScreened"]


@pytest.mark.parametrize("of", ["run", "tenant", "agent"])
async def test_failures_open_it(store: Any, streamed: bool, of: Any) -> None:
    desk = Desk(13, 13, 5)
    result = await desk.run(store, breaking(of=of), streamed)
    assert (result.final_output, desk.paid) == ("done", [])
    last = (await screened(store, result.run_id))[-1]
    assert (last.action, last.by) == ("deny", f"policy:1{BY_BREAKER}")
    assert "it closes again at" in last.reason
    assert (await check(store)).ok


@pytest.mark.parametrize("of", ["run", "tenant"])
async def test_denials_and_rejections_open_it_and_its_own_denials_do_not(store: Any, streamed: bool, of: Any) -> None:
    desk = Desk(2000, 2000, 5, 5, 5)
    result = await desk.run(store, breaking(of=of), streamed)
    assert desk.paid == []
    assert [each.by for each in await screened(store, result.run_id)] == ["policy:2"] * 2 + [
        f"policy:1{BY_BREAKER}"
    ] * 3
    others = Desk(500, 5)
    policy = breaking(1, of=of, name=None if of == "run" else "others")
    result = await others.run(store, policy, streamed)
    inbox = Inbox(store)
    [row] = await inbox.list()
    await inbox.reject(row, by=ANN)
    result = await play(others.agent, await RunState.load(store, result.run_id, others.agent), streamed, policy=policy)
    assert (result.final_output, others.paid) == ("done", [])
    assert (await check(store)).ok


async def test_it_closes_again_when_they_are_old_enough(streamed: bool) -> None:
    for of in ("run", "tenant"):
        now = [1_700_000_000_000]
        store = MemoryJournal(lambda now=now: now[0])
        desk, policy, inbox = Desk(13, 13, 5), breaking(action="ask", of=of), Inbox(store)
        result = await desk.run(store, policy, streamed)
        [row] = await inbox.list()
        words = row.reason.rpartition("it closes again at ")[2].removesuffix(" UTC")
        closes = datetime.strptime(words, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp() * 1000
        assert now[0] + 599_000 <= closes <= now[0] + 610_000
        await inbox.approve(row, by=ANN)
        result = await play(desk.agent, await RunState.load(store, result.run_id, desk.agent), streamed, policy=policy)
        assert (result.final_output, desk.paid) == ("done", [5]), "what a person approved is not held back"
        again = Desk(7)
        shared = (await again.run(store, policy, streamed)).interruptions
        assert len(shared) == (0 if of == "run" else 1)
        now[0] += 660_000
        later = Desk(8)
        assert (await later.run(store, policy, streamed)).final_output == "done"
        assert later.paid == [8]
        assert (await check(store)).ok


async def test_a_breaker_of_several_runs_outlives_the_process(tmp_path: Any) -> None:
    path = f"sqlite:///{tmp_path}/runs.db"
    store = SQLiteJournal(path.removeprefix("sqlite:///"))
    await Desk(13).run(store, breaking(of="tenant"))
    await Desk(13).run(store, breaking(of="tenant"))
    await store.close()
    forget()
    store = SQLiteJournal(path.removeprefix("sqlite:///"))
    desk = Desk(5)
    await desk.run(store, breaking(of="tenant"))
    assert desk.paid == []
    assert (await check(store)).ok
    await store.close()


async def test_each_failure_of_many_runs_is_counted_once(store: Any) -> None:
    policy = breaking(7, of="tenant")
    await asyncio.gather(*(Desk(13).run(store, policy) for _ in range(6)))
    desk = Desk(5)
    await desk.run(store, policy)
    assert desk.paid == [5], "six are not seven"
    await Desk(13).run(store, policy)
    shut = Desk(5)
    await shut.run(store, policy)
    assert shut.paid == []
    assert (await check(store)).ok


async def test_a_run_whose_breaker_could_not_be_told_as_it_ended_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulator: the store failed in that moment, the run was over, and nobody looked at it again."""
    now = [1_700_000_000_000]
    store, desk, tell = MemoryJournal(lambda: now[0]), Desk(13), QuotaCount.tell
    desk.agent.tool_use_behavior = "stop_on_first_tool"

    async def over() -> bool:
        return any((row.agent, row.status) == ("desk", "finished") for row in await store.runs())

    async def fails(*_given: Any) -> None:
        await until(over)
        raise StorageError("the connection broke")

    monkeypatch.setattr(QuotaCount, "tell", fails)
    with pytest.raises(StorageError):
        await desk.run(store, breaking(1, of="tenant"))
    monkeypatch.setattr(QuotaCount, "tell", tell)
    [run] = [row.run for row in await store.runs() if row.agent == "desk"]
    now[0] += 60_000
    assert run in await store.due()
    await go_on(store, run, desk.agent)
    other = Desk(5)
    await other.run(store, breaking(1, of="tenant"))
    assert other.paid == []


async def test_a_store_that_fails_as_the_log_of_a_limit_is_begun_is_no_damaged_log() -> None:
    """Found by the simulator: what damage forbids is passed over, so that the breaker was never told."""

    class Down(MemoryJournal):
        async def append(self, *given: Any, **more: Any) -> None:
            raise StorageError("the connection broke")

    store = Down()
    with pytest.raises(StorageError, match="the connection broke"):
        await quota_count(store, "failures", 600_000).tell(store, Taker("run", "r/1.0", "of", 1), lambda: 1)


async def test_the_checker_sees_a_breaker_that_was_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store, policy = MemoryJournal(), breaking(5, of="tenant")
    await Desk(13).run(store, policy)

    async def silence(*_given: Any) -> None:
        """Tell nobody."""

    monkeypatch.setattr(QuotaCount, "tell", silence)
    run = (await Desk(13).run(store, policy)).run_id
    report = await check(store)
    assert [(each.run, each.what.endswith("was never told")) for each in report.violations] == [(run, True)]


async def test_what_is_not_of_the_rule_does_not_open_it(store: Any) -> None:
    over = Breaker(1, per="1h", after=["failed"], of="tenant")
    policy = Policy(Rule("deny", tool="pay", where={"amount": {"gt": 100}}, over=over), Rule("allow"))
    desk = Desk(13, 500)
    await desk.run(store, policy)
    assert desk.paid == [500]


async def test_a_breaker_and_a_budget_that_share_the_tenant(store: Any) -> None:
    policy = Policy(
        Rule("deny", tool="pay", over=Breaker(1, per="1h", of="tenant")),
        Rule("deny", tool="pay", over=Budget("amount", 10, of="tenant")),
        Rule("allow", tool="pay"),
    )
    desk = Desk(6, 6, 1)
    await desk.run(store, policy)
    assert desk.paid == [6], "the budget denied the second, which opened the breaker"
    assert (await check(store)).ok


def test_a_file_has_it_too() -> None:
    policy = Policy.from_toml("""
    [[rules]]
    action = "deny"
    tool = "pay"
    review = 0.0
    over = { breaker = 3, per = "10m", after = ["failed"], of = "agent", name = "pay" }

    [[rules]]
    action = "allow"
    review = 0.25
    """)
    assert policy.rules[0].over == Breaker(3, per="10m", after=["failed"], of="agent", name="pay")
    assert Policy.from_toml(policy.to_toml()).rules == policy.rules
    assert policy.rules[1].review == 0.25
    with pytest.raises(UserError, match="per is missing"):
        Policy.from_toml('[[rules]]\naction = "deny"\nover = { breaker = 3 }')


@pytest.mark.each
@pytest.mark.parametrize(
    "wrong",
    [{"most": 0}, {"most": True}, {"per": None}, {"per": "soon"}, {"after": "failed"}, {"after": ["lost"]},
     {"after": []}, {"of": "galaxy"}, {"name": "x"}],
)  # fmt: skip
def test_what_is_no_breaker_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Breaker(**({"most": 3, "per": "10m"} | wrong))


def test_it_goes_with_ask_or_deny() -> None:
    with pytest.raises(UserError, match="goes with 'ask' or 'deny'"):
        Rule("allow", over=Breaker(3, per="10m"))
