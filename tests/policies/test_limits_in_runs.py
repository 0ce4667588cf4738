"""Limits on whole runs: counted from what the run recorded, whoever holds it, and for calls that were made together."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    Budget,
    Calls,
    CustomTool,
    Grant,
    MemoryJournal,
    Policy,
    Rejections,
    Rule,
    RunContextWrapper,
    RunState,
    StoppedByPolicy,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    function_tool,
    tool_input_guardrail,
)
from keyturn.core.codec import Log
from keyturn.core.events import CallFinished, CallScreened
from keyturn.core.policy import CallView
from keyturn.core.strict import parse
from keyturn.engine.run.agents import AgentGraph
from keyturn.engine.run.open_run import OpenRun
from keyturn.engine.run.used_states import UsedStates
from keyturn.testing import ScriptedModel, approve_all
from keyturn.tools.base import OutcomeUnknown
from tests.playing import (
    HOUR,
    Carry,
    Clock,
    Effects,
    Run,
    call,
    events,
    fresh,
    item_of,
    labels,
    pay_tool,
    script,
    told,
)
from tests.waiting import turns_of_the_loop

pytestmark = pytest.mark.usefixtures("own_key")

SPENDING = Policy(Rule("ask", tool="pay", over=Budget("amount", 100)), Rule("allow", tool="pay"))


def payer(effects: Effects, *rounds: tuple[int, ...], **options: Any) -> Agent[Any]:
    """An agent that pays these amounts, the calls labelled p1, p2 and so on, round by round."""
    numbers = iter(range(1, 1_000))
    replies = [[call("pay", f"p{next(numbers)}", to="ada", amount=amount) for amount in made] for made in rounds]
    return Agent("a", model=script(*replies, "done"), tools=[pay_tool(effects, needs_approval=False, **options)])


def paid(effects: Effects) -> list[int]:
    return [amount for _name, _to, amount in effects]


def actions(holder: Any) -> list[str]:
    return [event.action for event in events(holder, CallScreened)]


# ------------------------------------------------------------------------------------------------- what is counted


async def test_calls_of_one_reply_share_one_budget(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer(effects, (60, 60, 40, 1))
    result = await run(agent, "go", policy=SPENDING)
    assert (paid(effects), labels(result)) == ([60, 40], ["p2", "p4"])
    [_second, fourth] = result.interruptions
    assert fourth.reason == "over the budget of 100 for 'amount' in this run"
    state = await carry(agent, result.to_state())
    state.approve(item_of(state, "p2"))
    state.reject(item_of(state, "p4"))
    assert (await run(agent, state, policy=SPENDING)).final_output == "done"
    assert paid(effects) == [60, 40, 60], "a person may let more through"


async def test_a_budget_outlives_the_process(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer(effects, (60,), (500,), (40,), (1,))
    state = (await run(agent, "go", policy=SPENDING)).to_state()
    assert (paid(effects), labels(state)) == ([60], ["p2"])
    state = await carry(agent, state)
    state.reject(item_of(state, "p2"))
    result = await run(agent, state, policy=Policy(*SPENDING.rules))
    assert (paid(effects), labels(result)) == ([60, 40], ["p4"]), "what was rejected was not spent"


async def test_what_a_person_let_through_is_spent(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer(effects, (500,), (1,))
    state = await carry(agent, (await run(agent, "go", policy=SPENDING)).to_state())
    state.approve(item_of(state, "p1"), edit={"to": "ada", "amount": 99})
    result = await run(agent, state, policy=SPENDING)
    assert (result.final_output, paid(effects)) == ("done", [99, 1]), "as it was edited"


async def test_runs_do_not_share_a_budget(run: Run, effects: Effects) -> None:
    for _again in range(3):
        assert (await run(payer(effects, (100,)), "go", policy=SPENDING)).final_output == "done"
    assert paid(effects) == [100] * 3


async def test_a_limit_that_denies_holds_whatever_people_approve(run: Run, carry: Carry, effects: Effects) -> None:
    policy = Policy(Rule("deny", over=Calls(2)), Rule("ask"))
    agent = payer(effects, (1, 2, 3, 4))
    state = await carry(agent, (await run(agent, "go", policy=policy)).to_state())
    assert labels(state) == ["p1", "p2", "p3", "p4"], "what is only asked about has not happened"
    state.reject(item_of(state, "p1"))
    for label in ("p2", "p3", "p4"):
        state.approve(item_of(state, label))
    result = await run(agent, state, policy=policy)
    assert (result.final_output, paid(effects)) == ("done", [2, 3])
    assert dict(told(agent.model))["p4"] == "over the limit of 2 calls in this run"


async def test_a_limit_that_denies_holds_for_what_is_approved_in_line(run: Run, effects: Effects) -> None:
    async def sql(_context: Any, text: str) -> str:
        effects.append(text)
        return "ran"

    tool = CustomTool(
        "sql", "Runs SQL.", sql, needs_approval=True, on_approval=lambda _context, _item: {"approve": True}
    )
    calls = [{"type": "custom_tool_call", "call_id": f"c{n}", "name": "sql", "input": f"select {n}"} for n in range(4)]
    agent = Agent("a", model=ScriptedModel([calls, "done"]), tools=[tool])
    policy = Policy(Rule("deny", tool="sql", over=Calls(2)))
    assert (await run(agent, "go", policy=policy)).final_output == "done"
    assert len(effects) == 2


async def test_a_grant_covers_what_a_limit_asks_and_nothing_that_it_denies(run: Run, effects: Effects) -> None:
    policy = Policy(Rule("deny", over=Calls(3)), Rule("ask", over=Calls(1)), Rule("allow"))
    agent = payer(effects, (1,), (2,), (3,), (4,))
    state = (await run(agent, "go", policy=policy)).to_state()
    state.approve(item_of(state, "p2"), grant=Grant())
    assert (await run(agent, state, policy=policy)).final_output == "done"
    assert paid(effects) == [1, 2, 3]


async def test_a_nested_agent_spends_of_the_same_budget(run: Run, effects: Effects) -> None:
    inner = payer(effects, (60, 50))
    ask = [call("expert", "e1", input="go")]
    outer = Agent("b", model=script(ask, "done"), tools=[inner.as_tool("expert", "Pays."), *payer(effects).tools])
    result = await run(outer, "go", policy=Policy(*SPENDING.rules, default="allow"))
    assert (paid(effects), labels(result)) == ([60], ["p2"])
    by_name = Policy(Rule("ask", agent="a", over=Budget("amount", 100)), Rule("allow"))
    effects.clear()
    result = await run(outer, "go", policy=by_name)
    assert (paid(effects), labels(result)) == ([60], ["p2"]), "the agent is meant by its name, its path is another"


@pytest.mark.parametrize(("word", "asks"), [("did_not_run", []), ("ran", ["p2"]), ("retry", ["p2"])])
async def test_a_call_in_doubt_is_spent_unless_a_person_says_that_it_did_not_run(
    word: Any, asks: list[str], run: Run, carry: Carry, effects: Effects
) -> None:
    async def pay(to: str, amount: int) -> str:
        effects.append(("pay", to, amount))
        if len(effects) == 1:
            raise OutcomeUnknown("nobody knows")
        return "paid"

    agent = payer(effects, (70,), (40,))
    agent.tools = [function_tool(pay)]
    state = await carry(agent, (await run(agent, "go", policy=SPENDING)).to_state())
    state.resolve(item_of(state, "p1"), word)
    assert labels(await run(agent, state, policy=SPENDING)) == asks


async def test_a_call_that_a_guardrail_stopped_was_not_spent(run: Run, effects: Effects) -> None:
    @tool_input_guardrail
    def no_seventies(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        refused = "70" in str(data.context.tool_arguments)
        return ToolGuardrailFunctionOutput.reject_content("no") if refused else ToolGuardrailFunctionOutput.allow()

    agent = payer(effects, (70,), (40,), tool_input_guardrails=[no_seventies])
    assert (await run(agent, "go", policy=SPENDING)).final_output == "done"
    assert paid(effects) == [40]


async def test_what_is_only_asked_about_takes_no_room(run: Run, effects: Effects) -> None:
    agent = payer(effects, (500, 100))
    result = await run(agent, "go", policy=SPENDING)
    assert (paid(effects), labels(result)) == ([100], ["p1"])


# ------------------------------------------------------------------------------------------ time, and many at once


async def test_a_stretch_of_time_goes_by_the_runs_own_clock(run: Run, effects: Effects) -> None:
    clock = Clock()
    policy = Policy(Rule("ask", tool="pay", over=Calls(2, per="1h")), Rule("allow"))

    async def wait(minutes: int) -> str:
        clock.pass_ms(minutes * 60_000)
        return "waited"

    agent = payer(effects)
    replies = [[call("pay", "p1", to="a"), call("pay", "p2", to="b")], [call("wait", "w", minutes=59)]]
    replies += [[call("pay", "p3", to="c")]]
    agent.model, agent.tools = script(*replies, "done"), [*agent.tools, function_tool(wait)]
    state = fresh(agent, clock=clock)
    state = (await run(agent, state, policy=policy)).to_state()
    assert (len(effects), labels(state)) == (2, ["p3"])
    clock.pass_ms(HOUR)
    state.reject(item_of(state, "p3"))
    agent.model = script(*replies, [call("pay", "p4", to="d")], "done")
    assert (await run(agent, state, policy=policy)).final_output == "done"
    assert len(effects) == 3, "an hour later there is room again"


@pytest.mark.parametrize("journal", [False, True])
async def test_screenings_of_one_reply_that_overlap_still_share_the_room(
    journal: bool, run: Run, effects: Effects
) -> None:
    inside = list[str]()

    class Slow:
        counts = True

        async def __call__(self, view: CallView, _context: Any) -> Any:
            inside.append(view.call_id)
            assert view.past is not None
            ran = sum(other.params["amount"] for other in view.past.ran())
            for _turn in range(5):
                await turns_of_the_loop()
                assert inside == [view.call_id], "one is asked about at a time"
            inside.clear()
            return "allow" if ran + view.params["amount"] <= 100 else "deny"

    agent = payer(effects, (30,) * 20)
    options: dict[str, Any] = {"journal": MemoryJournal()} if journal else {}
    assert (await run(agent, "go", policy=Slow(), **options)).final_output == "done"
    assert paid(effects) == [30, 30, 30]


async def test_a_policy_that_does_not_count_is_asked_side_by_side_and_sees_no_past(run: Run, effects: Effects) -> None:
    inside, most = deque[str](), list[int]()

    async def policy(view: CallView, _context: Any) -> Any:
        assert view.past is None
        inside.append(view.call_id)
        await turns_of_the_loop()
        most.append(len(inside))
        inside.pop()
        return "allow"

    await run(payer(effects, (1, 2, 3)), "go", policy=policy)
    assert max(most) > 1


async def test_a_thousand_calls_are_each_measured_once(run: Run, effects: Effects) -> None:
    measured = list[str]()

    class Counting(Budget):
        def _spent(self, call: CallView) -> Any:
            measured.append(call.call_id)
            return super()._spent(call)

    policy = Policy(Rule("ask", over=Counting("amount", 10_000)), Rule("allow"))
    agent = payer(effects, *[(1,) * 50] * 4)
    assert (await run(agent, "go", policy=policy)).final_output == "done"
    assert (len(effects), len(measured)) == (200, 199), "what is new since the last question, and nothing twice"


# -------------------------------------------------------------------------------------------------- the breaker


def stubborn(effects: Effects, times: int, **options: Any) -> Agent[Any]:
    """An agent whose model makes one call again and again, whatever it is told."""
    replies = [[call("pay", f"p{number}", to="ada", amount=5)] for number in range(1, times + 1)]
    return Agent("a", model=script(*replies, "done"), tools=[pay_tool(effects, **options)])


async def test_a_model_that_asks_on_bothers_nobody_any_more(run: Run, carry: Carry, effects: Effects) -> None:
    policy = Policy(Rule("deny", over=Rejections(2)))
    agent, asked = stubborn(effects, 5), list[str]()
    state = (await run(agent, "go", policy=policy)).to_state()
    while labels(state):
        asked += labels(state)
        state = await carry(agent, state)
        state.reject(state.get_interruptions()[0])
        state = (await run(agent, state, policy=policy)).to_state()
    assert (asked, effects) == (["p1", "p2"], [])
    words = [text for _label, text in told(agent.model)]
    assert words[2:] == [Rejections(2).over] * 3


async def test_calls_that_wait_already_are_still_for_people(run: Run, effects: Effects) -> None:
    policy = Policy(Rule("deny", over=Rejections(1)))
    agent = Agent(
        "a", model=script([call("pay", f"p{n}", to="ada") for n in (1, 2)], "done"), tools=[pay_tool(effects)]
    )
    state = (await run(agent, "go", policy=policy)).to_state()
    state.reject(item_of(state, "p1"))
    state.approve(item_of(state, "p2"))
    assert (await run(agent, state, policy=policy)).final_output == "done"
    assert len(effects) == 1, "somebody said yes to this one"


async def test_the_breaker_can_stop_the_run(run: Run, carry: Carry, effects: Effects) -> None:
    policy = Policy(Rule("deny", over=Rejections(1), stop=True))
    agent = stubborn(effects, 3)
    state = await carry(agent, (await run(agent, "go", policy=policy)).to_state())
    state.reject(item_of(state, "p1"))
    with pytest.raises(StoppedByPolicy, match="rejected once") as stopped:
        await run(agent, state, policy=policy)
    assert stopped.value.tool_name == "pay"
    state = stopped.value.run_data.to_state()  # pyright: ignore[reportAttributeAccessIssue]  # every error has it
    assert (state.live.run.status, labels(state), effects) == ("failed", [], [])
    lenient = Policy(Rule("allow"))
    result = await run(agent, await carry(agent, state), policy=lenient)
    assert (result.final_output, len(effects)) == ("done", 1), "the denial stands, and the run goes on with the third"


async def test_it_stops_the_run_from_inside_a_nested_agent(run: Run, effects: Effects) -> None:
    inner = stubborn(effects, 2, needs_approval=False)
    outer = Agent(
        "b", model=script([call("expert", "e1", input="go")], "done"), tools=[inner.as_tool("expert", "Pays.")]
    )
    policy = Policy(Rule("deny", tool="pay", over=Calls(1), stop=True), Rule("allow"))
    with pytest.raises(StoppedByPolicy):
        await run(outer, "go", policy=policy)
    assert len(effects) == 1


# ------------------------------------------------------------------------------------ what changes while it waits


class TestC14:
    """The newest policy may be stricter about a call that waits; a looser one approves nothing."""

    async def test_a_limit_that_was_tightened_applies(self, run: Run, carry: Carry, effects: Effects) -> None:
        agent = payer(effects, (60,), (50,))
        state = await carry(agent, (await run(agent, "go", policy=SPENDING)).to_state())
        state.approve(item_of(state, "p2"))
        tight = Policy(Rule("deny", tool="pay", over=Budget("amount", 100)), *SPENDING.rules)
        result = await run(agent, state, policy=tight)
        assert (result.final_output, paid(effects)) == ("done", [60])
        assert actions(result) == ["allow", "ask", "deny"], "each verdict is a fact of the run"

    async def test_a_limit_that_was_loosened_approves_nothing_old(
        self, run: Run, carry: Carry, effects: Effects
    ) -> None:
        agent = payer(effects, (60,), (50,))
        state = await carry(agent, (await run(agent, "go", policy=SPENDING)).to_state())
        loose = Policy(Rule("ask", tool="pay", over=Budget("amount", 10_000)), Rule("allow"))
        result = await run(agent, state, policy=loose)
        assert (labels(result), paid(effects)) == (["p2"], [60])
        assert (await run(agent, approve_all(result), policy=loose)).final_output == "done"


class TestE14:
    """A policy is read once: whatever an agent writes to its file changes nothing before somebody reads it anew."""

    async def test_what_a_tool_writes_to_the_policys_file_has_no_effect(
        self, run: Run, carry: Carry, effects: Effects, tmp_path: Path
    ) -> None:
        path = tmp_path / "policy.toml"
        path.write_text('default = "ask"\n[[rules]]\naction = "allow"\ntool = "write"\n', encoding="utf-8")

        async def write(text: str) -> str:
            path.write_text(text, encoding="utf-8")
            return "written"

        agent = payer(effects)
        agent.model = script([call("write", "w1", text='default = "allow"')], [call("pay", "p1", to="eve")], "done")
        agent.tools = [*agent.tools, function_tool(write)]
        policy = Policy.from_toml(path)
        result = await run(agent, "go", policy=policy)
        assert (labels(result), effects) == (["p1"], [])
        result = await run(agent, await carry(agent, result.to_state()), policy=policy)
        assert (labels(result), effects) == (["p1"], []), "nor when the run is taken up again"
        again = await run(agent, result.to_state(), policy=Policy.from_toml(path))
        assert (labels(again), effects) == (["p1"], []), "nor, once it is read, for what waits already"


# ---------------------------------------------------------------------------------------------------- a crash


async def test_a_crash_between_the_verdict_and_the_start_frees_no_room(run: Run, effects: Effects) -> None:
    """Cut after every line of the log: whoever takes the run up never spends more than the budget."""
    agent = payer(effects, (60, 60), (40, 1))
    policy = Policy(Rule("deny", tool="pay", over=Budget("amount", 100)), Rule("allow"))
    whole = await run(agent, "go", policy=policy)
    assert (whole.final_output, paid(effects)) == ("done", [60, 40])
    log = whole.to_state().live.log
    for count in range(2, len(log)):
        effects.clear()
        live = OpenRun(Log.read(log.lines(count)), AgentGraph(agent), RunContextWrapper(None), used=UsedStates())
        cut = RunState.at(live, count, [])
        ran = sum(amounts(cut))
        result = await run(agent, cut, policy=policy)
        assert ran + sum(paid(effects)) <= 100, f"cut at line {count}"
        assert result.interruptions or result.final_output == "done"


def amounts(state: RunState[Any]) -> list[int]:
    """What was surely paid before a cut: calls that have their results."""
    ended = {event.call for event in events(state, CallFinished)}
    return [parse(let.text)["amount"] for let in state.live.run.let if let.call in ended]
