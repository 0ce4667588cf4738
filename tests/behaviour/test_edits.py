"""A person changes a call's arguments, and everybody who must know of it is told."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from keyturn import Agent, FunctionTool, RunState, Secret, UserError, Verdict, function_tool
from keyturn.core.events import CallDecided, ReplyRecorded
from tests.playing import (
    Carry,
    Effects,
    Run,
    call,
    events,
    item_of,
    labels,
    pay_tool,
    raw_call,
    script,
    told,
)
from tests.table import each

NOTICE = "A person changed the arguments of this call"


def payer(effects: Effects, *replies: Any, **options: Any) -> Agent[Any]:
    first = replies or ([call("pay", "c1", to="ada", amount=900)],)
    return Agent("a", model=script(*first, "done"), tools=[pay_tool(effects, **options)])


async def test_the_edited_call_runs_and_the_model_is_told(run: Run, carry: Carry, effects: Effects) -> None:
    """Both versions and the editor are recorded; the model's own call is not rewritten."""
    agent = payer(effects)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), edit={"to": "ada", "amount": 9}, by="ann", note="typo")
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, effects) == ("done", [("pay", "ada", 9)])
    [(label, output)] = told(agent.model)
    assert label == "c1"
    assert output.startswith(NOTICE)
    assert '{"amount":9,"to":"ada"}' in output
    assert output.endswith("pay: 9 to ada")
    [said] = [item for item in agent.model.calls[-1].input if item.get("type") == "function_call"]
    assert said["arguments"] == '{"to":"ada","amount":900}'
    [decided] = events(result, CallDecided)
    decision = decided.decision
    assert (decision.verdict, decision.args, decision.by, decision.note) == (
        "edit",
        '{"amount":9,"to":"ada"}',
        "ann",
        "typo",
    )
    assert events(result, ReplyRecorded)[0].output[0]["arguments"] == '{"to":"ada","amount":900}'


WRONG: dict[str, Any] = {
    "wrong type": {"to": "ada", "amount": "many"},
    "a text for a number": {"to": "ada", "amount": "9"},
    "a truth for a number": {"to": "ada", "amount": True},
    "missing": {"amount": 9},
    "unknown field": {"to": "ada", "amount": 9, "force": True},
    "NaN": {"to": "ada", "amount": float("nan")},
    "infinity": {"to": "ada", "amount": float("inf")},
    "a fraction": {"to": "ada", "amount": 0.5},
    "null": {"to": None},
    "no JSON": {"to": object()},
    "a set": {"to": {"ada"}},
    "keys that are no texts": {1: "ada"},
    "lone surrogate": {"to": "\ud800"},
    "huge": {"to": "x" * (1 << 20)},
    "a list": ["ada", 9],
    "a text": '{"to": "ada"}',
    "a number": 9,
}


@each("edit", WRONG.values(), ids=WRONG.keys())
async def test_an_edit_that_the_schema_refuses_decides_nothing(
    run: Run, carry: Carry, effects: Effects, edit: Any
) -> None:
    """At once, with a typed error; the call waits as before and can be decided."""
    agent = payer(effects)
    state = await carry(agent, (await run(agent, "go")).to_state())
    with pytest.raises(UserError):
        state.approve(item_of(state, "c1"), edit=edit, always_approve=True)
    assert (state.undelivered.decisions, state.grants) == ({}, [])
    result = await run(agent, state)
    assert (labels(result), effects) == (["c1"], [])
    state = result.to_state()
    state.approve(item_of(state, "c1"))
    await run(agent, state)
    assert (effects.pop(), effects) == (("pay", "ada", 900), [])


async def test_an_empty_edit_is_an_edit(run: Run, effects: Effects) -> None:
    """`edit={}` is the whole of the arguments, and here they lack one."""
    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    with pytest.raises(UserError):
        state.approve(item_of(state, "c1"), edit={})


async def test_an_edit_is_whole_and_gets_the_defaults_of_the_schema(run: Run, carry: Carry, effects: Effects) -> None:
    """It replaces the arguments; what it leaves out is the tool's default, not the model's value."""
    agent = payer(effects)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), edit={"to": "bob"})
    await run(agent, state)
    assert effects == [("pay", "bob", 5)]
    assert '{"amount":5,"to":"bob"}' in told(agent.model)[0][1]


async def test_an_edit_is_taken_when_it_is_given(run: Run, effects: Effects) -> None:
    """What the caller does to the mapping afterwards changes nothing."""
    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    edit = {"to": "ada", "amount": 9}
    state.approve(item_of(state, "c1"), edit=edit)
    edit["amount"] = 1_000_000
    await run(agent, state)
    assert effects == [("pay", "ada", 9)]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_policy_is_asked_about_the_edited_call(run: Run, carry: Carry, effects: Effects, kind: str) -> None:
    """It may deny what the editor made of the call."""
    seen: list[Any] = []

    def policy(view: Any, _context: Any) -> Any:
        seen.append(view.params["amount"])
        return Verdict("deny", reason="never 13") if view.params["amount"] == 13 else None

    async def policy_async(view: Any, context: Any) -> Any:
        return policy(view, context)

    chosen = policy if kind == "sync" else policy_async
    agent = payer(effects)
    state = await carry(agent, (await run(agent, "go", policy=chosen)).to_state())
    state.approve(item_of(state, "c1"), edit={"to": "ada", "amount": 13})
    result = await run(agent, state, policy=chosen)
    assert (result.final_output, effects, seen) == ("done", [], [900, 13])
    assert told(agent.model) == [("c1", "never 13")]


async def test_an_edit_is_one_calls_and_its_grant_is_the_tools(run: Run, carry: Carry, effects: Effects) -> None:
    """A grant that comes with an edit covers later calls with the model's own arguments."""
    agent = payer(effects, [call("pay", "c1", to="ada", amount=900), call("pay", "c2", to="bob", amount=800)])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), edit={"to": "ada", "amount": 9}, always_approve=True)
    await run(agent, state)
    assert sorted(effects) == [("pay", "ada", 9), ("pay", "bob", 800)]
    outputs = dict(told(agent.model))
    assert NOTICE in outputs["c1"]
    assert NOTICE not in outputs["c2"]


async def test_a_tool_that_raises_on_edited_arguments_tells_of_the_edit_too(run: Run, effects: Effects) -> None:

    async def pay(to: str) -> str:
        """Pay."""
        effects.append(to)
        raise OSError("no")

    agent = Agent(
        "a", model=script([call("pay", "c1", to="ada")], "done"), tools=[function_tool(pay, needs_approval=True)]
    )
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"), edit={"to": "bob"})
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", ["bob"])
    assert NOTICE in told(agent.model)[0][1]
    assert '{"to":"bob"}' in told(agent.model)[0][1]


async def test_an_edited_call_whose_tool_changed_asks_again_and_is_still_told(run: Run, effects: Effects) -> None:
    """What a person had edited stays edited, is shown, and the model is told of it."""

    def agent_with(description: str) -> Agent[Any]:
        async def pay(to: str, amount: int = 5) -> str:
            effects.append((to, amount))
            return "paid"

        tool = function_tool(pay, description_override=description, needs_approval=True)
        return Agent("a", model=script([call("pay", "c1", to="ada", amount=900)], "done"), tools=[tool])

    agent = agent_with("Pay.")
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"), edit={"to": "ada", "amount": 9}, by="ann")
    agent = agent_with("Pay, and tell the world.")
    state = await RunState.from_string(agent, state.to_string())
    result = await run(agent, state)
    assert (labels(result), effects) == (["c1"], [])
    [item] = result.interruptions
    shown = item.params
    state = result.to_state()
    state.approve(item)
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", [(shown["to"], shown["amount"])])
    assert (NOTICE in told(agent.model)[0][1]) == (shown["amount"] == 9)


async def test_an_edit_without_its_tool_is_an_error_and_decides_nothing(run: Run, effects: Effects) -> None:
    """Nobody can check it."""
    agent = payer(effects)
    text = (await run(agent, "go")).to_state().to_string()
    bare = Agent("a", model=script("done"))
    state = await RunState.from_string(bare, text)
    with pytest.raises(UserError, match="pay"):
        state.approve(item_of(state, "c1"), edit={"to": "ada"})
    assert state.undelivered.decisions == {}


async def test_a_hand_made_tools_edit_is_checked_as_its_calls_are(run: Run, carry: Carry, effects: Effects) -> None:
    """Any JSON object, nothing else."""

    async def own(_context: Any, arguments: str) -> str:
        effects.append(arguments)
        return "ok"

    tool = FunctionTool("own", "By hand.", {"type": "object", "properties": {}}, own, False, needs_approval=True)
    agent = Agent("a", model=script([raw_call("own", "c1", '{"x": 1}')], "done"), tools=[tool])
    state = await carry(agent, (await run(agent, "go")).to_state())
    for wrong in ([], "x", float("nan"), {"x": float("nan")}):
        with pytest.raises(UserError):
            state.approve(item_of(state, "c1"), edit=wrong)
    state.approve(item_of(state, "c1"), edit={"x": 2})
    await run(agent, state)
    assert effects == ['{"x":2}']


async def test_a_secret_can_be_edited_and_is_not_shown(run: Run, carry: Carry, effects: Effects) -> None:
    """The editor gives the value; the item still shows none."""

    async def login(user: str, password: Annotated[str, Secret]) -> str:
        """Log in."""
        effects.append((user, password))
        return "ok"

    reply = [call("login", "c1", user="ada", password="hunter2")]
    agent = Agent("a", model=script(reply, "done"), tools=[function_tool(login, needs_approval=True)])
    state = await carry(agent, (await run(agent, "go")).to_state())
    item = item_of(state, "c1")
    assert "hunter2" not in repr(item.params)
    assert "hunter2" not in repr(item.preview)
    state.approve(item, edit={"user": "ada", "password": "correct horse"})
    await run(agent, state)
    assert effects == [("ada", "correct horse")]


async def test_editing_one_of_several_leaves_the_others_alone(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer(effects, [call("pay", "c1", to="ada"), call("pay", "c2", to="bob"), call("pay", "c3", to="eve")])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c2"), edit={"to": "zoe", "amount": 1})
    result = await run(agent, state)
    assert (labels(result), effects) == (["c1", "c3"], [("pay", "zoe", 1)])
    assert [item.params["to"] for item in result.interruptions] == ["ada", "eve"]
