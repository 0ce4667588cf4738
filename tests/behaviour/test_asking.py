"""Which calls ask, from what they are judged, and what their siblings do meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import (
    Agent,
    ApprovalRequired,
    CustomTool,
    RunState,
    ToolContext,
    UserError,
    Verdict,
    function_tool,
)
from keyturn.core.events import CallScreened
from keyturn.models.base import ModelResponse
from keyturn.models.scripted.model import ModelStep, ScriptedModel
from tests.playing import (
    Carry,
    Effects,
    Run,
    call,
    events,
    item_of,
    labels,
    look_tool,
    pay_tool,
    raw_call,
    script,
    told,
)
from tests.table import each

# ------------------------------------------------------------------------------------------------- 1: who is asked


async def test_true_asks_always(run: Run, carry: Carry, effects: Effects) -> None:
    """The run pauses without an exception, before the tool is touched."""
    model = script([call("pay", "c1", to="ada")], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    result = await run(agent, "go")
    assert (labels(result), result.final_output, effects, len(model.calls)) == (["c1"], None, [], 1)
    state = await carry(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state)
    assert (result.final_output, result.interruptions, effects) == ("done", [], [("pay", "ada", 5)])
    assert told(model) == [("c1", "pay: 5 to ada")]


async def test_false_and_a_callable_that_says_false_ask_nobody(run: Run, effects: Effects) -> None:
    for needs in (False, lambda _context, _params, _label: False):
        agent = Agent(
            "a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects, needs_approval=needs)]
        )
        assert (await run(agent, "go")).final_output == "done"
    assert len(effects) == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_callable_decides_from_validated_and_defaulted_arguments(run: Run, effects: Effects, kind: str) -> None:
    """It sees what will run: the default that was left out, the number that came as a text."""
    seen: list[Any] = []

    def large(context: Any, params: dict[str, Any], label: str) -> bool:
        seen.append((context.context, dict(params), label))
        return params["amount"] > 100

    async def large_async(context: Any, params: dict[str, Any], label: str) -> bool:
        return large(context, params, label)

    async def pay(to: str, amount: int = 500) -> str:
        effects.append((to, amount))
        return "paid"

    tool = function_tool(pay, needs_approval=large if kind == "sync" else large_async, strict_mode=False)
    reply = [call("pay", "c1", to="ada"), call("pay", "c2", to="bob", amount="7")]
    agent = Agent("a", model=script(reply, "done"), tools=[tool])
    result = await run(agent, "go", context={"user": "ann"})
    assert labels(result) == ["c1"]
    assert effects == [("bob", 7)]
    assert sorted(seen, key=lambda one: one[2]) == [
        ({"user": "ann"}, {"to": "ada", "amount": 500}, "c1"),
        ({"user": "ann"}, {"to": "bob", "amount": 7}, "c2"),
    ]


async def test_a_callable_cannot_change_what_will_run(run: Run, effects: Effects) -> None:
    """What is judged are bytes, not an object that the judge holds."""

    def shrink(_context: Any, params: dict[str, Any], _label: str) -> bool:
        params["amount"] = 1
        params.pop("to")
        return True

    agent = Agent(
        "a",
        model=script([call("pay", "c1", to="ada", amount=900)], "done"),
        tools=[pay_tool(effects, needs_approval=shrink)],
    )
    state = (await run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    assert item.params == {"to": "ada", "amount": 900}
    state.approve(item)
    await run(agent, state)
    assert effects == [("pay", "ada", 900)]


@pytest.mark.parametrize("wrong", ["yes", 1, None, [], {}])
def test_an_approval_setting_of_another_type_is_refused_at_construction(effects: Effects, wrong: Any) -> None:
    """Nothing that could be mistaken for "no" reaches the gate."""
    with pytest.raises(UserError, match="needs_approval"):
        pay_tool(effects, needs_approval=wrong)


# ---------------------------------------------------------------------------------- 2: what never becomes a request

REFUSED = {
    "malformed": '{"to": "ada"',
    "not JSON": "pay ada",
    "two values": '{"to": "ada"} {}',
    "null": "null",
    "a list": '["ada", 5]',
    "a text": '"ada"',
    "a number": "5",
    "duplicate keys": '{"to": "ada", "amount": 1, "amount": 900}',
    "duplicate keys by escape": '{"to": "ada", "amount": 1, "\\u0061mount": 900}',
    "NaN": '{"to": "ada", "amount": NaN}',
    "Infinity": '{"to": "ada", "amount": -Infinity}',
    "overflow": '{"to": "ada", "amount": 1e999}',
    "a fraction": '{"to": "ada", "amount": 1.5}',
    "wrong type": '{"to": "ada", "amount": "many"}',
    "wrong type of a text": '{"to": 7, "amount": 1}',
    "missing": '{"amount": 1}',
    "unknown field": '{"to": "ada", "amount": 1, "force": true}',
    "lone surrogate": '{"to": "\\ud800"}',
    "deep": '{"to": ' + "[" * 100 + "]" * 100 + "}",
    "huge integer": '{"to": "ada", "amount": ' + "9" * 5000 + "}",
    "huge": '{"to": "' + "x" * (1 << 20) + '"}',
    "empty": "",
    "byte order mark": '\ufeff{"to": "ada"}',
}


@pytest.mark.parametrize("needs", ["True", "callable"])
@each("text", REFUSED.values(), ids=REFUSED.keys())
async def test_arguments_that_the_schema_refuses_create_no_request(
    run: Run, effects: Effects, text: str, needs: str
) -> None:
    """No request, no callable, no effect; the model reads why and can try again."""
    asked: list[Any] = []

    def gate(_context: Any, params: dict[str, Any], _label: str) -> bool:
        asked.append(params)
        return True

    model = script([raw_call("pay", "c1", text)], [call("pay", "c2", to="ada", amount=3)], "done")
    tool = pay_tool(effects, needs_approval=True if needs == "True" else gate)
    result = await run(Agent("a", model=model, tools=[tool]), "go")
    assert (labels(result), effects) == (["c2"], [])
    assert asked == ([] if needs == "True" else [{"to": "ada", "amount": 3}])
    [(label, output)] = told(model)
    assert label == "c1"
    assert output.startswith("The arguments of pay are invalid")
    assert len(output) < 4_000


@pytest.mark.parametrize("arguments", [{"to": "ada"}, ["ada"], 5, None], ids=["object", "list", "number", "null"])
async def test_arguments_that_are_no_text_do_nothing(run: Run, effects: Effects, arguments: Any) -> None:
    """What a provider's library parsed for us may not be what the model wrote, so it is refused."""
    item = raw_call("pay", "c1", arguments)
    whole = {"type": "response.completed", "response": ModelResponse([item])}
    model = ScriptedModel([ModelStep([item], stream_events=[whole]), "done"])
    result = await run(Agent("a", model=model, tools=[pay_tool(effects)]), "go")
    assert (result.final_output, result.interruptions, effects) == ("done", [], [])
    assert told(model)[0][1].startswith("The arguments of pay are invalid")


async def test_a_refused_call_keeps_its_place_beside_one_that_waits(run: Run, carry: Carry, effects: Effects) -> None:
    """The model is not called for the refusal's sake; the results keep the order of the calls."""
    first = [call("pay", "c1", to="ada"), raw_call("pay", "c2", "null"), call("look", "c3")]
    model = script(first, "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects), look_tool(effects)])
    result = await run(agent, "go")
    assert (labels(result), effects, len(model.calls)) == (["c1"], [("look", "sky")], 1)
    state = await carry(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await run(agent, state)
    assert [label for label, _ in told(model)] == ["c1", "c2", "c3"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_callable_that_raises_asks_and_the_request_says_why(run: Run, effects: Effects, kind: str) -> None:
    """Fails closed, and the text of the exception, which may hold anything, is not shown."""

    def broken(_context: Any, _params: Any, _label: str) -> bool:
        raise KeyError("hunter2")

    async def broken_async(_context: Any, _params: Any, _label: str) -> bool:
        raise KeyError("hunter2")

    tool = pay_tool(effects, needs_approval=broken if kind == "sync" else broken_async)
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[tool])
    result = await run(agent, "go")
    assert (labels(result), effects) == (["c1"], [])
    assert "KeyError" in result.interruptions[0].reason
    assert "hunter2" not in result.interruptions[0].reason


@each("answer", [0, 1, "", "no", None, [], 0.0], ids=repr)
async def test_a_callable_that_answers_no_bool_asks_and_the_request_says_why(
    run: Run, effects: Effects, answer: Any
) -> None:
    """A falsy answer is not a "no"."""
    tool = pay_tool(effects, needs_approval=lambda _context, _params, _label: answer)
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[tool])
    result = await run(agent, "go")
    assert (labels(result), effects) == (["c1"], [])
    assert "True or False" in result.interruptions[0].reason


# --------------------------------------------------------------------------------------- 3: verdicts that are facts


async def test_a_callable_is_asked_once_for_a_call(run: Run, carry: Carry, effects: Effects) -> None:
    """Not at a resume without a decision, not after a load, not when it is approved and runs."""
    asked: list[str] = []

    def gate(_context: Any, _params: Any, label: str) -> bool:
        asked.append(label)
        return len(asked) == 1

    agent = Agent(
        "a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects, needs_approval=gate)]
    )
    result = await run(agent, "go")
    for _ in range(3):
        result = await run(agent, await carry(agent, result.to_state()))
        assert labels(result) == ["c1"]
    state = await carry(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await run(agent, state)
    assert (asked, effects) == (["c1"], [("pay", "ada", 5)])


async def test_a_policy_is_asked_again_at_the_decision_and_recorded_again(
    run: Run, carry: Carry, effects: Effects
) -> None:
    asked: list[Any] = []

    def policy(view: Any, _context: Any) -> str:
        asked.append((view.tool, view.params, view.agent))
        return "ask"

    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects)])
    result = await run(agent, "go", policy=policy)
    result = await run(agent, await carry(agent, result.to_state()), policy=policy)
    assert len(asked) == 1, "a resume without a decision asks nobody"
    state = await carry(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state, policy=policy)
    assert asked == [("pay", {"to": "ada", "amount": 5}, "a")] * 2
    assert len(events(result, CallScreened)) == 2
    assert effects == [("pay", "ada", 5)]


@pytest.mark.parametrize("how", ["approve", "edit", "always"])
async def test_a_policy_that_was_tightened_denies_what_was_approved(
    run: Run, carry: Carry, effects: Effects, how: str
) -> None:
    """Allow or ask at the proposal, deny at the decision."""
    model = script([call("pay", "c1", to="ada"), call("pay", "c2", to="bob")], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    result = await run(agent, "go", policy=lambda _view, _context: None)
    assert labels(result) == ["c1", "c2"]
    state = await carry(agent, result.to_state())
    if how == "always":
        state.approve(item_of(state, "c1"), always_approve=True)
    elif how == "edit":
        for label in ("c1", "c2"):
            state.approve(item_of(state, label), edit={"to": "eve", "amount": 1})
    else:
        for label in ("c1", "c2"):
            state.approve(item_of(state, label))
    result = await run(agent, state, policy=lambda _view, _context: Verdict("deny", reason="payments are closed"))
    assert (result.final_output, effects) == ("done", [])
    assert told(model) == [("c1", "payments are closed"), ("c2", "payments are closed")]


async def test_a_policy_that_comes_with_the_resume_tightens_too(run: Run, carry: Carry, effects: Effects) -> None:
    """The run knew of none when the call was proposed."""
    model = script([call("pay", "c1", to="ada")], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state, policy=lambda _view, _context: "deny")
    assert (result.final_output, effects) == ("done", [])


async def test_a_loosened_policy_never_approves_what_waits(run: Run, carry: Carry, effects: Effects) -> None:
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects)])
    result = await run(agent, "go", policy=lambda _view, _context: "ask")
    for _ in range(2):
        state = await carry(agent, result.to_state())
        result = await run(agent, state, policy=lambda _view, _context: "allow")
        assert (labels(result), effects) == (["c1"], [])
    state = await carry(agent, result.to_state())
    state.reject(state.get_interruptions()[0])
    result = await run(agent, state, policy=lambda _view, _context: "allow")
    assert (result.final_output, effects) == ("done", [])


async def test_a_policy_that_denies_asks_nobody(run: Run, effects: Effects) -> None:
    """The model reads the reason, the run goes on."""
    model = script([call("pay", "c1", to="ada")], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    result = await run(agent, "go", policy=lambda _view, _context: Verdict("deny", reason="not on Sundays"))
    assert (result.final_output, effects, told(model)) == ("done", [], [("c1", "not on Sundays")])


@each("answer", ["maybe", 1, True, False, "", {"action": "allow"}], ids=repr)
async def test_a_policy_that_answers_nonsense_asks(run: Run, effects: Effects, answer: Any) -> None:
    """The tool itself would ask nobody."""
    agent = Agent(
        "a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects, needs_approval=False)]
    )
    result = await run(agent, "go", policy=lambda _view, _context: answer)
    assert (labels(result), effects) == (["c1"], [])
    assert "policy" in result.interruptions[0].reason


async def test_a_policy_that_raises_asks(run: Run, effects: Effects) -> None:

    async def policy(_view: Any, _context: Any) -> str:
        raise RuntimeError("hunter2")

    agent = Agent(
        "a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects, needs_approval=False)]
    )
    result = await run(agent, "go", policy=policy)
    assert (labels(result), effects) == (["c1"], [])
    assert "RuntimeError" in result.interruptions[0].reason
    assert "hunter2" not in result.interruptions[0].reason


async def test_a_run_under_a_policy_is_not_resumed_without_one(run: Run, effects: Effects) -> None:
    """A saved state does not hold the policy; to forget it is an error, and nothing is lost by it."""
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects)])
    text = (await run(agent, "go", policy=lambda _view, _context: None)).to_state().to_string()
    for attempt in ("without", "without", "with"):
        state = await RunState.from_string(agent, text)
        state.approve(state.get_interruptions()[0])
        if attempt == "without":
            with pytest.raises(UserError, match="policy"):
                await run(agent, state)
        else:
            await run(agent, state, policy=lambda _view, _context: None)
    assert effects == [("pay", "ada", 5)]


# ----------------------------------------------------------------------------------------------------- 4: siblings


async def test_siblings_that_need_nobody_run_at_once(run: Run, carry: Carry, effects: Effects) -> None:
    """And the model is not asked until every call has its result, which it reads in the order emitted."""
    first = [
        call("pay", "c1", to="ada"),
        call("look", "c2", at="sea"),
        call("pay", "c3", to="bob"),
        call("look", "c4", at="sky"),
        call("pay", "c5", to="eve"),
    ]
    model = script(first, "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects), look_tool(effects)])
    result = await run(agent, "go")
    assert (labels(result), sorted(effects)) == (["c1", "c3", "c5"], [("look", "sea"), ("look", "sky")])

    state = await carry(agent, result.to_state())
    state.approve(item_of(state, "c5"))
    result = await run(agent, state)
    assert (labels(result), effects[2:], len(model.calls)) == (["c1", "c3"], [("pay", "eve", 5)], 1)

    state = await carry(agent, result.to_state())
    state.reject(item_of(state, "c1"))
    result = await run(agent, state)
    assert (labels(result), len(effects), len(model.calls)) == (["c3"], 3, 1)

    state = await carry(agent, result.to_state())
    state.answer(item_of(state, "c3"), "bob was paid by hand")
    result = await run(agent, state)
    assert (result.final_output, len(effects), len(model.calls)) == ("done", 3, 2)
    assert told(model) == [
        ("c1", "Tool execution was not approved."),
        ("c2", "saw sea"),
        ("c3", "bob was paid by hand"),
        ("c4", "saw sky"),
        ("c5", "pay: 5 to eve"),
    ]


async def test_a_slow_sibling_holds_up_nobody_and_changes_no_order(run: Run, effects: Effects) -> None:
    """Results come in the order of the calls, not of their ends."""
    free = asyncio.Event()

    async def slow() -> str:
        await free.wait()
        effects.append("slow")
        return "slow"

    async def quick() -> str:
        effects.append("quick")
        free.set()
        return "quick"

    model = script([call("slow", "c1"), call("quick", "c2"), call("pay", "c3", to="ada")], "done")
    tools = [function_tool(slow), function_tool(quick), pay_tool(effects)]
    agent = Agent("a", model=model, tools=tools)
    result = await run(agent, "go")
    assert (labels(result), effects) == (["c3"], ["quick", "slow"])
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    await run(agent, state)
    assert [label for label, _ in told(model)] == ["c1", "c2", "c3"]


async def test_the_answers_to_ten_siblings_come_in_any_order(run: Run, carry: Carry, effects: Effects) -> None:
    """One decision at a time, last call first."""
    names = [f"c{index}" for index in range(12)]
    model = script([call("pay", name, to=name) for name in names], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    result = await run(agent, "go")
    assert labels(result) == names
    for name in reversed(names):
        assert len(model.calls) == 1
        state = await carry(agent, result.to_state())
        state.approve(item_of(state, name))
        result = await run(agent, state)
    assert [to for _, to, _ in effects] == list(reversed(names))
    assert [label for label, _ in told(model)] == names


# ------------------------------------------------------------------------------------- 6: resuming with nothing new


async def test_a_resume_without_a_decision_changes_nothing(run: Run, carry: Carry, effects: Effects) -> None:
    """The same interruptions, no model call, no tool, no line in the log."""
    model = script([call("pay", "c1", to="ada"), call("look", "c2")], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects), look_tool(effects)])
    result = await run(agent, "go")
    before = (labels(result), result.interruptions[0].digest, len(result.to_state().live.log.steps))
    for _ in range(3):
        result = await run(agent, await carry(agent, result.to_state()))
        assert (labels(result), result.interruptions[0].digest, len(result.to_state().live.log.steps)) == before
    assert (len(model.calls), effects) == (1, [("look", "sky")])


async def test_a_finished_run_returns_its_result_again(run: Run, carry: Carry, effects: Effects) -> None:
    model = script([call("pay", "c1", to="ada")], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state)
    for _ in range(2):
        result = await run(agent, await carry(agent, result.to_state()))
        assert (result.final_output, result.interruptions) == ("done", [])
    assert [item.type for item in result.new_items][-1] == "message_output_item"
    assert (len(model.calls), effects) == (2, [("pay", "ada", 5)])


async def test_a_paused_result_can_be_passed_in_its_states_place(run: Run, effects: Effects) -> None:
    """`Runner.run(agent, result)` is `Runner.run(agent, result.to_state())`."""
    model = script([call("pay", "c1", to="ada")], "done")
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    result = await run(agent, "go")
    result.context_wrapper.approve_tool(result.interruptions[0])
    result = await run(agent, result)
    assert (result.final_output, effects) == ("done", [("pay", "ada", 5)])


# ------------------------------------------------------------------------------------- 7: beside a handoff


@pytest.mark.parametrize("order", ["handoff first", "call first"])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_calls_are_settled_before_the_handoff_beside_them(
    run: Run, carry: Carry, effects: Effects, order: str, verdict: str
) -> None:
    reply = [call("transfer_to_b", "h1"), call("pay", "c1", to="ada")]
    second = script(None, "b is done")
    b = Agent("b", model=second, tools=[pay_tool(effects)])
    first = script(reply if order == "handoff first" else reply[::-1])
    a = Agent("a", model=first, tools=[pay_tool(effects)], handoffs=[b])
    result = await run(a, "go")
    assert (labels(result), effects, result.last_agent.name, len(second.calls)) == (["c1"], [], "a", 0)
    result = await run(a, await carry(a, result.to_state()))
    assert (labels(result), result.last_agent.name) == (["c1"], "a")
    state = await carry(a, result.to_state())
    getattr(state, verdict)(state.get_interruptions()[0])
    result = await run(a, state)
    assert (result.final_output, result.last_agent.name) == ("b is done", "b")
    assert effects == ([("pay", "ada", 5)] if verdict == "approve" else [])
    assert sorted(label for label, _ in told(second)) == ["c1", "h1"]
    assert (len(first.calls), len(second.calls)) == (1, 1)


async def test_a_handoff_beside_a_call_that_is_refused_still_happens(run: Run, effects: Effects) -> None:
    b = Agent("b", model=script(None, "b is done"))
    a = Agent(
        "a",
        model=ScriptedModel([[raw_call("pay", "c1", "null"), call("transfer_to_b", "h1")]]),
        tools=[pay_tool(effects)],
        handoffs=[b],
    )
    result = await run(a, "go")
    assert (result.final_output, effects) == ("b is done", [])


async def test_on_approval_is_asked_before_a_call_starts_and_not_about_one_that_asks_from_inside(run: Run) -> None:
    heard: list[str] = []

    def approves(_context: Any, item: Any) -> Any:
        heard.append(item.kind)
        return {"approve": True}

    async def sql(context: ToolContext[Any], text: str) -> str:
        if context.approval is None or context.approval.via == "on_approval":
            raise ApprovalRequired
        return f"ran {text}"

    tool = CustomTool("sql", "Runs SQL.", sql, needs_approval=True, on_approval=approves)
    asks = {"type": "custom_tool_call", "id": "i1", "call_id": "c1", "name": "sql", "input": "DROP"}
    agent = Agent("desk", model=ScriptedModel([[asks], "done"]), tools=[tool])
    paused = await run(agent, "go")
    assert (len(paused.interruptions), heard) == (1, ["approval"])
    state = paused.to_state()
    state.approve(paused.interruptions[0], by="ada")
    assert ((await run(agent, state)).final_output, heard) == ("done", ["approval"])
