"""A policy that is replaced between the moment in which a call is let run and its start is asked before the start."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    MemoryJournal,
    Policy,
    RunConfig,
    Runner,
    RunState,
    ToolExecutionConfig,
    function_tool,
    handoff,
)
from keyturn.audit.checker import check
from keyturn.deep import create_deep_agent
from keyturn.policies.rules import Rule
from keyturn.testing import ScriptedModel, function_call, tool_outputs

ASK, ALLOW, DENY = (Policy(Rule(action)) for action in ("ask", "allow", "deny"))


class Desk:
    """An agent whose payments stand still once they have begun, until they are let go on."""

    def __init__(self, payments: int = 1, **options: Any):
        self.paid: list[int] = []
        self.at_work, self.go_on = asyncio.Event(), asyncio.Event()
        self.journal = MemoryJournal()

        @function_tool(**options)
        async def pay(amount: int) -> str:
            self.paid.append(amount)
            self.at_work.set()
            await self.go_on.wait()
            return "paid"

        calls = [function_call("pay", {"amount": each}, call_id=f"c{each}") for each in range(payments)]
        self.model = ScriptedModel([calls, "done"])
        self.agent = Agent("desk", model=self.model, tools=[pay])

    async def decided(self, policy: Policy) -> RunState[Any]:
        result = await Runner.run(self.agent, "go", journal=self.journal, policy=policy)
        state = result.to_state()
        for call in result.interruptions:
            state.approve(call)
        return state

    async def killed(self, running: Any) -> RunState[Any]:
        """Stop a run in the middle of its tool, and take it up again."""
        task = asyncio.ensure_future(running)
        await self.at_work.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        self.go_on.set()
        [row] = await self.journal.runs()
        return await RunState.load(self.journal, row.run, self.agent)

    async def kept(self) -> None:
        report = await check(self.journal)
        assert report.ok, report.violations


@pytest.mark.parametrize("options", [{"idempotent": True}, {"read_only": True}])
@pytest.mark.parametrize("first", [ASK, ALLOW])
async def test_a_call_that_is_started_again_by_itself_takes_what_the_policy_says_now(
    first: Policy, options: dict[str, Any]
) -> None:
    desk = Desk(**options)
    state = await desk.decided(first) if first is ASK else "go"
    journal = {} if first is ASK else {"journal": desk.journal}
    state = await desk.killed(Runner.run(desk.agent, state, policy=first, **journal))
    await Runner.run(desk.agent, state, policy=DENY)
    assert desk.paid == [0]
    told = tool_outputs(desk.model.calls[-1])["c0"]
    assert told.startswith("the policy changed after this call was allowed")
    assert ("may have run" in told) == ("idempotent" in options)
    await desk.kept()


@pytest.mark.parametrize("then", [ASK, ALLOW])
async def test_a_call_that_is_started_again_runs_where_the_policy_of_now_lets_it(then: Policy) -> None:
    """What a person approved is not asked again, where a policy asks on the same terms."""
    desk = Desk(idempotent=True)
    state = await desk.killed(Runner.run(desk.agent, await desk.decided(ASK), policy=ASK))
    done = await Runner.run(desk.agent, state, policy=then)
    assert (desk.paid, done.final_output) == ([0, 0], "done")
    await desk.kept()


async def test_a_call_that_waits_for_its_slot_takes_what_the_policy_says_then() -> None:
    desk = Desk(payments=2)
    one = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    async with App([desk.agent], desk.journal, ASK, run_config=one) as app:
        run = await app.start("desk", "go")
        await run.wait(20)
        await app.inbox.approve_all(await app.inbox.list(), by="ann")
        await desk.at_work.wait()
        app.policy = DENY
        desk.go_on.set()
        await run.wait(20)
    assert len(desk.paid) == 1
    await desk.kept()


class Around:
    """A policy of the user's own, which has another one that it asks, or not."""

    def __init__(self, policy: Policy, action: str):
        self.policy, self.action = policy, action

    def __call__(self, call: Any, context: Any) -> str:
        return self.action


async def test_a_policy_that_holds_another_is_told_apart_from_its_successor() -> None:
    desk = Desk(payments=2)
    one = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    async with App([desk.agent], desk.journal, Around(ALLOW, "allow"), run_config=one) as app:
        run = await app.start("desk", "go")
        await desk.at_work.wait()
        app.policy = Around(ALLOW, "deny")
        desk.go_on.set()
        await run.wait(20)
    assert len(desk.paid) == 1


async def test_rules_of_a_deep_agent_that_are_replaced_hold_for_a_call_that_waits_for_its_slot() -> None:
    at_work, go_on, sent = asyncio.Event(), asyncio.Event(), list[str]()

    async def send(to: str) -> str:
        sent.append(to)
        at_work.set()
        await go_on.wait()
        return "sent"

    model = ScriptedModel([[function_call("send", {"to": each}, call_id=each) for each in ("ann", "bob")], "done"])
    agent = create_deep_agent(model, tools=[send], interrupt_on={"send": False}, name="ops")
    one = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
    async with App([agent], MemoryJournal(), run_config=one) as app:
        run = await app.start("ops", "go")
        await at_work.wait()
        agent.interrupt_on = {"send": True}
        go_on.set()
        await run.wait(20)
        assert (len(sent), len(await app.inbox.list())) == (1, 1)


async def test_a_handoff_that_waits_for_a_call_beside_it_takes_what_the_policy_says_then() -> None:
    """The calls beside it may wait for a person for weeks."""

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        return "paid"

    other = Agent("other", model=ScriptedModel(["hello"]))
    calls = [function_call("pay", {"amount": 1}), function_call("over", {}, call_id="c2")]
    model = ScriptedModel([calls, "stayed"])
    desk = Agent("desk", model=model, tools=[pay], handoffs=[handoff(other, tool_name_override="over")])
    asked = await Runner.run(desk, "go", policy=Policy(Rule("allow", kind="handoff")))
    state = asked.to_state()
    state.approve(asked.interruptions[0])
    done = await Runner.run(desk, state, policy=Policy(Rule("deny", kind="handoff", reason="not today")))
    assert (done.last_agent.name, tool_outputs(model.calls[-1])["c2"]) == ("desk", "not today")
