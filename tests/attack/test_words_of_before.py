"""What was found out about one asking of a call says nothing about the next: a policy, a guardrail and a hook are slow.

Meanwhile the approval is taken back and given anew for other arguments, by one person who may do both.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Calls,
    Grant,
    Inbox,
    MemoryJournal,
    Policy,
    Rule,
    RunHooks,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from keyturn.audit.checker import check
from keyturn.core import decide
from keyturn.core.gate.opening import Still
from keyturn.testing import ScriptedModel, function_call
from tests.waiting import until_status


class Slow:
    """Looks at an approved call of 5 until it is let go, and refuses more than 100."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.looks, self.goes = asyncio.Event(), asyncio.Event()

    async def refuses(self, amount: int) -> bool:
        self.seen.append(amount)
        if amount == 5:
            self.looks.set()
            await self.goes.wait()
        return amount > 100


def payer(paid: list[int], **settings: Any) -> Agent[Any]:
    @function_tool(needs_approval=True, **settings)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    return Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 5})], "Done."]), tools=[pay])


def by_policy(slow: Slow, paid: list[int]) -> tuple[Agent[Any], dict[str, Any]]:
    async def policy(call: Any, _context: object) -> str:
        if not call.approved:
            return "ask"
        return "deny" if await slow.refuses(call.params["amount"]) else "allow"

    return payer(paid), {"policy": policy}


def by_guardrail(slow: Slow, paid: list[int]) -> tuple[Agent[Any], dict[str, Any]]:
    @tool_input_guardrail
    async def small(data: Any) -> ToolGuardrailFunctionOutput:
        if await slow.refuses(json.loads(data.context.tool_arguments)["amount"]):
            return ToolGuardrailFunctionOutput.reject_content("too much")
        return ToolGuardrailFunctionOutput.allow()

    return payer(paid, tool_input_guardrails=[small]), {}


def by_hook(slow: Slow, paid: list[int]) -> tuple[Agent[Any], dict[str, Any]]:
    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            if await slow.refuses(json.loads(context.tool_arguments)["amount"]):
                raise PermissionError("too much")

    return payer(paid), {"hooks": Hooks()}


async def approved_anew(journal: MemoryJournal, slow: Slow, agent: Agent[Any], options: dict[str, Any]) -> None:
    """Approve a call, and while that is looked at take the approval back and give it for other arguments."""
    async with App([agent], journal, **options) as app:
        run = await app.start("desk", "go")
        await until_status(app, run.id, "waiting")
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ada")
        await slow.looks.wait()
        await app.inbox.withdraw(row, by="ada")
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ada", edit={"amount": 1000})
        slow.goes.set()
        await until_status(app, run.id, "finished", "failed")


@pytest.mark.parametrize("by", [by_policy, by_guardrail, by_hook])
async def test_what_was_found_of_one_approval_is_not_said_of_the_next(by: Any) -> None:
    slow, paid, journal = Slow(), list[int](), MemoryJournal()
    await approved_anew(journal, slow, *by(slow, paid))
    assert (slow.seen[-1], paid) == (1000, [])
    assert (await check(journal)).ok


async def test_the_auditor_finds_a_verdict_on_an_approval_that_stood_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a core would write it that does not ask whether what a verdict rests on still stands."""
    monkeypatch.setitem(decide._DECIDE, Still, lambda _run, _command: ())
    slow, paid, journal = Slow(), list[int](), MemoryJournal()
    await approved_anew(journal, slow, *by_policy(slow, paid))
    assert paid == [1000]
    [found] = (await check(journal)).violations
    assert (found.invariant, "verdict on asking 1" in found.what) == ("I3", True)


async def test_a_grant_that_a_worker_has_not_heard_of_passes_no_limit_of_several_runs() -> None:
    """The call was let run by a grant, and counted as one that asks."""
    paid, journal = list[str](), MemoryJournal()
    rules = Policy(Rule("deny", tool="pay", over=Calls(1, of="tenant", name="x")), Rule("ask", tool="pay"))

    class GrantedMeanwhile:
        counts = counts_for_several_runs = True
        shares = rules.shares

        async def __call__(self, call: Any, context: object = None) -> Any:
            if call.params["to"] == "b" and not call.approved and (rows := await Inbox(journal).list()):
                await Inbox(journal).approve(rows[0], by="ada", grant=Grant())
            return rules(call, context)

    @function_tool
    def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    calls = [function_call("pay", {"to": "a"}), function_call("pay", {"to": "b"})]
    agent = Agent("desk", model=ScriptedModel([calls, "Done."]), tools=[pay])
    async with App([agent], journal, policy=GrantedMeanwhile()) as app:
        run = await app.start("desk", "go")
        await until_status(app, run.id, "finished", "waiting")
    assert len(paid) == 1
    assert (await check(journal)).ok
