"""Terms that several state about one call: none is dropped, whatever the others state and whenever they state it."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Decider,
    Inbox,
    MemoryJournal,
    NotAllowed,
    Policy,
    RunConfig,
    Runner,
    RunState,
    function_tool,
)
from keyturn.audit.checker import check
from keyturn.core.gate.combined_terms import NOT_COMBINED, combined
from keyturn.core.policy import Verdict
from keyturn.deep import create_deep_agent
from keyturn.engine.effects.screening import beside_own
from keyturn.models.scripted.model import function_call
from keyturn.policies.rules import Rule
from keyturn.testing import ScriptedModel, tool_outputs
from keyturn.tools.base import NeedsInput
from tests.table import each
from tests.waiting import until

ANN, LEA = (Decider(name, roles=(role,), strength="authenticated") for name, role in (("ann", "ops"), ("lea", "leads")))
OPS, SOON = Approval(role="ops"), Approval(expires="4h")


def asks(terms: Approval | None = None, tool: str = "pay") -> Policy:
    return Policy(Rule("ask", tool=tool, approval=terms))


class World:
    """An app whose agent makes one payment, on a clock that is set by hand."""

    def __init__(
        self,
        policy: Any = None,
        *,
        terms: Approval | None = None,
        how: str = "plain",
        inner: Any = None,
        needs: Any = False,
    ):
        self.paid: list[int] = []
        self.time = [1_000_000]
        self.journal = MemoryJournal(lambda: self.time[0])

        @function_tool(approval=terms, needs_approval=needs)
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        self.model = ScriptedModel([[function_call("pay", {"amount": 5})], "done"])
        if how == "deep":
            self.agent: Any = create_deep_agent(self.model, tools=[pay], interrupt_on={"pay": inner}, name="desk")
        elif how == "nested":
            below = Agent("clerk", model=self.model, tools=[pay])
            tool = below.as_tool("ask", "asks", run_config=RunConfig(policy=asks(inner)))
            self.agent = Agent(
                "desk", model=ScriptedModel([[function_call("ask", {"input": "go"})], "ok"]), tools=[tool]
            )
        else:
            self.agent = Agent("desk", model=self.model, tools=[pay])
        self.app = App([self.agent], self.journal, policy)

    async def waits(self) -> Any:
        await (await self.app.start("desk", "go", requester="eve")).wait(20)
        return await self.request()

    async def request(self) -> Any:
        [found] = await self.app.inbox.list()
        return found

    async def still(self) -> None:
        """Wait until nothing is to be done."""
        [run] = await self.app.runs()
        await self.app.run(run.run).wait(20)

    async def paid_on_all_terms(self) -> None:
        """See that the call has its deadline, and is approved by who may by all terms and by no other."""
        async with self.app as app:
            request = await self.waits()
            assert request.expires_at is not None
            with pytest.raises(NotAllowed):
                await app.inbox.approve(request, by="mallory")
            assert self.paid == []
            await app.inbox.approve(await self.request(), by=ANN)
            await self.still()
        assert self.paid == [5]
        await self.kept()

    async def kept(self) -> None:
        report = await check(self.journal)
        assert report.ok, report.violations


@each("then", [asks(), Policy(default="ask")])
async def test_a_policy_that_states_no_terms_any_more_leaves_those_of_the_tool(then: Policy) -> None:
    """A decision that met the terms of the former policy does not count where the newest one asks as the tool says."""
    world = World(asks(SOON), terms=OPS)
    async with world.app as app:
        first = await world.waits()
        app.policy = then
        await app.inbox.approve(first, by="mallory")
        await world.still()
        again = await world.request()
        assert (world.paid, again.revision > first.revision) == ([], True)
        await app.inbox.approve(again, by=ANN)
        await world.still()
    assert world.paid == [5]
    await world.kept()


@each("how", ["deep", "nested"])
async def test_terms_of_an_inner_policy_hold_beside_those_of_the_outer_one(how: str) -> None:
    await World(asks(SOON), how=how, inner=OPS).paid_on_all_terms()


@each("outer, inner", [(asks(), SOON), (asks(SOON), None)])
async def test_a_policy_that_asks_without_terms_asks_on_those_of_the_tool_beside_another(
    outer: Policy, inner: Approval | None
) -> None:
    """The terms that one policy states do not take the place of those on which the other one asks."""
    await World(outer, terms=OPS, how="nested", inner=inner).paid_on_all_terms()


def cannot_tell(call: Any, context: Any) -> bool:
    raise ValueError("no answer")


def doubts(terms: Approval | None) -> Rule:
    return Rule("ask", tool="pay", when=cannot_tell, approval=terms)


@each(
    "policy",
    [
        Policy(doubts(SOON)),
        Policy(doubts(SOON), *asks().rules),
        Policy(doubts(SOON), default="ask"),
        Policy(doubts(None), *asks(SOON).rules),
        Policy(doubts(SOON), doubts(None), default="allow"),
    ],
)
async def test_a_rule_that_cannot_tell_takes_no_place_of_the_terms_of_the_tool(policy: Policy) -> None:
    """A caller whose arguments no rule could tell had those approve whom one rule names, and not those of the tool."""
    await World(policy, terms=OPS).paid_on_all_terms()


async def test_a_policy_asks_on_the_terms_of_a_tool_that_would_not_have_asked_about_this_call() -> None:
    world = World(asks(), terms=OPS, needs=lambda context, params, call_id: params["amount"] > 100)
    async with world.app as app:
        request = await world.waits()
        with pytest.raises(NotAllowed):
            await app.inbox.approve(request, by="mallory")
        await app.inbox.approve(request, by=ANN)
        await world.still()
    assert world.paid == [5]
    await world.kept()


async def test_a_call_about_which_two_policies_ask_different_people_is_denied() -> None:
    """One decision cannot meet both, and half of what is required lets nothing run."""
    world = World(asks(Approval(role="finance")), how="deep", inner=OPS)
    async with world.app as app:
        await (await app.start("desk", "go")).wait(20)
        assert (world.paid, await app.inbox.list()) == ([], [])
    assert list(tool_outputs(world.model.calls[-1]).values()) == [NOT_COMBINED]


async def test_a_decision_counts_that_a_policy_escalated_to_others() -> None:
    terms = Approval(role="ops", expires="1h", on_expiry="escalate", escalate_to=("role:leads",))
    world = World(asks(terms))
    async with world.app as app:
        await world.waits()
        world.time[0] += 2 * 3_600_000
        await until(lambda: _escalated(world))
        await app.inbox.approve(await world.request(), by=LEA)
        await world.still()
        assert (world.paid, await app.inbox.list()) == ([5], [])
    await world.kept()


async def _escalated(world: World) -> bool:
    return (await world.request()).revision > 1


@each("now", [asks(OPS), Policy(Rule("deny", tool="pay"))])
async def test_a_result_in_the_tools_place_is_judged_by_the_newest_policy(now: Policy) -> None:
    world = World(asks())
    async with world.app as app:
        request = await world.waits()
        app.policy = now
        await app.inbox.answer(request, "I paid it", by="mallory")
        await world.still()
        assert world.paid == []
    [told] = tool_outputs(world.model.calls[-1]).values()
    assert "is not valid" in told
    await world.kept()


@each("now", [None, asks(), asks(OPS)])
async def test_a_result_that_meets_the_newest_policy_counts(now: Policy | None) -> None:
    world = World(asks())
    async with world.app as app:
        request = await world.waits()
        app.policy = now if now is not None else asks()
        await app.inbox.answer(request, "I paid it", by=ANN)
        await world.still()
    assert list(tool_outputs(world.model.calls[-1]).values()) == ["I paid it"]


def test_a_policy_takes_no_term_away_from_a_tool_that_requires_signatures() -> None:
    own = Approval(role="ops", signed=True, execute_by="30m", expires="1h", reason="required", quorum=2)
    terms = beside_own(own, Verdict("ask", terms=Approval(role="cfo", expires="4h"))).terms
    assert terms == Approval(role="cfo", signed=True, execute_by="30m", expires="1h", reason="required", quorum=2)


def test_own_terms_never_stand_in_place_of_those_of_the_policy() -> None:
    """Those of an external caller are its wishes: it would choose who approves, or who overrides."""
    ann = Verdict("ask", terms=Approval(users=("ann",)))
    for own in (Approval(users=("eve", "mal"), deny_quorum=2), Approval(quorum=2), Approval(signed=True, quorum=2)):
        assert beside_own(own, ann).action == "deny"
    ops = Verdict("ask", terms=Approval(role="ops", quorum=2))
    for own in (Approval(quorum=2, break_glass="mal"), Approval(role="dev", break_glass="mal"), Approval(expires="1h")):
        terms = beside_own(own, ops).terms
        assert terms is not None
        assert (terms.role, terms.quorum, terms.break_glass) == ("ops", 2, None)
    sure = Verdict("ask", terms=Approval(confirm=True, role="ops"))  # which is no step of a chain
    assert beside_own(Approval(steps=[Approval(users=("eve",)), Approval(users=("mal",))]), sure).action == "deny"


COMBINED: dict[str, tuple[Approval, Approval, Approval | None]] = {
    "the shorter times": (
        Approval(expires="4h", execute_by="2h", min_look="5s"),
        Approval(expires="30m", execute_by="3h", min_look="1m", on_expiry="ask_again"),
        Approval(expires="30m", execute_by="2h", min_look="1m", on_expiry="ask_again"),
    ),
    "the higher numbers": (
        Approval(quorum=2),
        Approval(quorum=3, deny_quorum=2, reason="on_reject"),
        Approval(quorum=3, deny_quorum=2, reason="on_reject"),
    ),
    "users on both lists": (Approval(users=("ann", "bob")), Approval(users=("bob", "cyd")), Approval(users=("bob",))),
    "nobody on both lists": (Approval(users=("ann",)), Approval(users=("bob",)), None),
    "more than are on both lists": (Approval(users=("ann", "bob"), quorum=2), Approval(users=("bob", "cyd")), None),
    "two roles": (Approval(role="ops"), Approval(role="leads"), None),
    "an emergency that one of them has not": (
        Approval(role="ops", break_glass="chief"),
        Approval(quorum=2),
        Approval(role="ops", quorum=2),
    ),
    "an emergency beside no deciders": (
        Approval(role="ops", break_glass="chief"),
        SOON,
        Approval(role="ops", break_glass="chief", expires="4h"),
    ),
    "an escalation past the other's deciders": (
        Approval(expires="1h", on_expiry="escalate", escalate_to=("zoe",)),
        OPS,
        Approval(role="ops", expires="1h"),
    ),
    "an escalation to people to whom the other does not escalate": (
        Approval(role="ops", expires="1h", on_expiry="escalate", escalate_to=("zoe",)),
        Approval(role="ops", expires="2h", escalate_to=("zoe",)),
        Approval(role="ops", expires="1h"),
    ),
}


@each("case", COMBINED)
def test_combined_terms_require_what_either_requires(case: str) -> None:
    outer, inner, both = COMBINED[case]
    assert combined(outer, inner) == both
    assert combined(inner, outer) == both


async def test_an_approval_that_is_taken_back_asks_anew_on_the_terms_on_record() -> None:
    """A looser deployment while the call was approved lets nobody decide who could not before."""
    starts = list[int]()

    @function_tool(approval=OPS)
    def pay(amount: int) -> Any:
        starts.append(amount)
        return NeedsInput({"amount": amount}, wants="approval")

    journal = MemoryJournal()
    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 5})], "done"]), tools=[pay])
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    inbox = Inbox(journal, {"desk": agent})
    await inbox.approve((await inbox.list())[0], by=ANN)
    await Runner.run(agent, await RunState.load(journal, run, agent))
    [asks_inside] = await inbox.list()
    await inbox.approve(asks_inside, by=ANN)
    pay.approval, pay.needs_approval = None, True
    await inbox.withdraw(asks_inside, by=ANN)
    await Runner.run(agent, await RunState.load(journal, run, agent))
    [request] = await inbox.list()
    with pytest.raises(NotAllowed):
        await inbox.approve(request, by="mallory")
    assert starts == [5]
    report = await check(journal)
    assert report.ok, report.violations
