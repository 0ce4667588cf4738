"""What the simulator found: an edit passed by the tool's own terms, and a process that stood still never ended."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from keyturn import Agent, Approval, Computer, ComputerTool, MemoryJournal, RunHooks, Runner, function_tool
from keyturn.policies.rules import Policy, Rule
from keyturn.testing import ScriptedModel, function_call
from tests.playing import Run
from trials.simulate import knobs_of
from trials.simulation.made import made_world
from trials.simulation.stage import simulate

LITTLE = {"n": {"lt": 10}}
SMALL = Policy(Rule("ask", where=LITTLE, approval=Approval()))


def payer(paid: list[int]) -> Agent[Any]:
    @function_tool(approval=Approval(reason="required"))
    def pay(n: int) -> str:
        paid.append(n)
        return "paid"

    return Agent("payer", model=ScriptedModel([[function_call("pay", {"n": 7}, call_id="c1")], "done"]), tools=[pay])


@pytest.mark.parametrize("later", [SMALL, Policy(Rule("allow", where=LITTLE))])
async def test_an_edit_to_where_the_policy_says_nothing_takes_what_the_tool_asks_for(later: Policy) -> None:
    """A policy that asked less of small amounts was asked about a large one, had no say, and nobody asked the tool."""
    paid: list[int] = []
    agent = payer(paid)
    result = await Runner.run(agent, "go", policy=SMALL, journal=MemoryJournal())
    state = result.to_state()
    state.approve(result.interruptions[0], edit={"n": 700}, by="ann")
    result = await Runner.run(agent, state, policy=later)
    [item] = result.interruptions
    assert (paid, item.request.terms.reason) == ([], "required")
    state = result.to_state()
    state.approve(item, note="the invoice is large", by="ann")
    result = await Runner.run(agent, state, policy=SMALL)
    assert (paid, result.final_output) == ([700], "done")


async def test_what_was_approved_as_shown_goes_on_without_more() -> None:
    paid: list[int] = []
    agent = payer(paid)
    result = await Runner.run(agent, "go", policy=SMALL)
    state = result.to_state()
    state.approve(result.interruptions[0], by="ann")
    assert (await Runner.run(agent, state, policy=SMALL)).final_output == "done"
    assert paid == [7]


@pytest.mark.each
@pytest.mark.parametrize(
    ("seed", "knobs"),
    [
        (89430, ["depth=0", "faults=0", "changes=0", "guardrails=0", "policies=0", "meddling=0"]),
        (99398, ["runs=1", "depth=0", "guardrails=0", "meddling=0", "restores=0"]),
    ],
)
def test_seeds_that_once_broke_a_promise_keep_it(seed: int, knobs: list[str]) -> None:
    """A start that was recorded along with a decision, after which the process stood still and lost its run, was
    looked for in every round of the loop; the other is the edit above.
    """
    with made_world():
        assert simulate(seed, knobs_of(knobs)).violations == []


async def test_a_gate_that_is_set_just_before_the_start_asks(run: Run) -> None:
    """Whatever let the call run before: a plain False, a callable, or that of a computer."""
    ran: list[object] = []

    def pay() -> str:
        ran.append("paid")
        return "paid"

    desk = Mock(spec=Computer, environment="browser", dimensions=(10, 10))
    desk.click.side_effect = lambda **where: ran.append(where)
    click = {"type": "click", "x": 1, "y": 1, "button": "left"}
    clicks = {"type": "computer_call", "call_id": "c1", "actions": [click], "pending_safety_checks": []}
    paid = function_call("pay", {})

    def gate(*_call: object) -> bool:
        return False

    for tool, call in [
        (function_tool(pay), paid),
        (function_tool(pay, needs_approval=gate), paid),
        (ComputerTool(desk), clicks),
    ]:

        class Late(RunHooks[Any]):
            async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
                tool.needs_approval = True

        agent = Agent("a", model=ScriptedModel([[call], "done"]), tools=[tool])
        assert len((await run(agent, "go", hooks=Late())).interruptions) == 1
    assert ran == []
