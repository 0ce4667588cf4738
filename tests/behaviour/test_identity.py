"""Which call a decision is for, and what happens when its tool or its agent is not what it was."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    AgentMissing,
    ModelBehaviorError,
    NotPending,
    RunState,
    ToolMissing,
    function_tool,
)
from keyturn.core.events import CallVoided, ReplyRecorded
from keyturn.models.scripted.model import ScriptedModel
from keyturn.testing import approve_all
from tests.playing import (
    Carry,
    Effects,
    Run,
    call,
    events,
    fresh,
    item_of,
    labels,
    look_tool,
    pay_tool,
    payer,
    raw_call,
    script,
    told,
)

MARKER = "xyzzy-plugh"


# ------------------------------------------------------------------------------------------- 15: the provider's id


async def test_the_same_id_with_the_same_content_in_one_turn_is_one_call(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """It asks once, runs once and has one result; the conversation holds it once."""
    twice = [call("pay", "c1", to="ada"), {**call("pay", "c1", to="ada"), "id": "item_2", "status": "completed"}]
    agent = payer(effects, [*twice, call("pay", "c2", to="ada")])
    state = await carry(agent, (await run(agent, "go")).to_state())
    assert labels(state) == ["c1", "c2"]
    approve_all(state)
    result = await run(agent, state)
    assert (effects, [label for label, _ in told(agent.model)]) == ([("pay", "ada", 5)] * 2, ["c1", "c2"])
    assert len(events(result, ReplyRecorded)[0].output) == 2


OTHERS: dict[str, list[Any]] = {
    "other arguments": [call("pay", "c1", to="ada"), call("pay", "c1", to="eve")],
    "another spelling": [raw_call("pay", "c1", '{"to":"ada"}'), raw_call("pay", "c1", '{"to": "ada"}')],
    "another tool": [call("pay", "c1", to="ada"), call("look", "c1")],
    "an ungated tool first": [call("look", "c1"), call("pay", "c1", to="ada")],
    "after an innocent one": [call("look", "c0"), call("look", "c1"), call("look", "c1", at="sea")],
    "a handoff": [call("pay", "c1", to="ada"), call("transfer_to_b", "c1")],
    "another namespace": [call("look", "c1"), {**call("look", "c1"), "namespace": "n"}],
}


@pytest.mark.parametrize("reply", OTHERS.values(), ids=OTHERS.keys())
async def test_the_same_id_with_other_content_is_refused_before_any_effect(
    run: Run, effects: Effects, reply: list[Any]
) -> None:
    """Nothing of the reply is used; the run can be resumed, and the model is asked anew."""
    b = Agent("b", model=script("b"))
    model = ScriptedModel([reply, "sorry"])
    agent = Agent("a", model=model, tools=[pay_tool(effects), look_tool(effects)], handoffs=[b])
    state = fresh(agent)
    with pytest.raises(ModelBehaviorError):
        await run(agent, state)
    assert (effects, labels(state), events(state, ReplyRecorded)) == ([], [], [])
    result = await run(agent, state)
    assert (result.final_output, effects) == ("sorry", [])


async def test_a_repeated_id_in_a_later_turn_is_a_new_call(run: Run, carry: Carry, effects: Effects) -> None:
    """It asks anew, with the same arguments and with others; no decision is inherited."""
    replies = [[call("pay", "c1", to=to)] for to in ("ada", "ada", "eve", "ada")]
    agent = payer(effects, *replies)
    result = await run(agent, "go")
    seen = set()
    for turn, verdict in enumerate(("approve", "reject", "approve", "approve")):
        assert labels(result) == ["c1"]
        assert len(effects) == (0, 1, 1, 2)[turn]
        seen |= {result.interruptions[0].digest, result.interruptions[0].request_id}
        state = await carry(agent, result.to_state())
        getattr(state, verdict)(state.get_interruptions()[0])
        result = await run(agent, state)
    assert (result.final_output, [to for _, to, _ in effects]) == ("done", ["ada", "eve", "ada"])
    assert len(seen) == 8, "each has a digest and a request of its own"
    assert [output for _, output in told(agent.model)][1] == "Tool execution was not approved."


async def test_an_old_item_does_not_decide_a_new_call_of_the_same_id(run: Run, carry: Carry, effects: Effects) -> None:
    agent = payer(effects, [call("pay", "c1", to="ada")], [call("pay", "c1", to="ada")])
    state = await carry(agent, (await run(agent, "go")).to_state())
    old = state.get_interruptions()[0]
    state.approve(old)
    state = await carry(agent, (await run(agent, state)).to_state())
    assert labels(state) == ["c1"]
    with pytest.raises(NotPending):
        state.approve(old)
    assert len(effects) == 1


@pytest.mark.parametrize("label", ["", None, 7], ids=["empty", "missing", "a number"])
@pytest.mark.parametrize("name", ["pay", "look", "transfer_to_b"])
async def test_a_call_without_an_id_is_refused_before_any_effect(
    run: Run, effects: Effects, label: Any, name: str
) -> None:
    bad = {"type": "function_call", "call_id": label, "name": name, "arguments": "{}", "id": "fc_1"}
    if label is None:
        del bad["call_id"]
    b = Agent("b", model=script("b"))
    model = ScriptedModel([[call("look", "c0"), bad], "sorry"])
    agent = Agent("a", model=model, tools=[pay_tool(effects), look_tool(effects)], handoffs=[b])
    state = fresh(agent)
    with pytest.raises(ModelBehaviorError, match="call id"):
        await run(agent, state)
    assert (effects, labels(state)) == ([], [])
    assert (await run(agent, state)).final_output == "sorry"


async def test_what_a_caller_sends_as_history_is_never_a_call(run: Run, effects: Effects) -> None:
    """Calls, answers to requests and results in the input are text for the model, nothing more."""
    history = [
        {"role": "user", "content": "pay"},
        call("pay", "c1", to="eve", amount=1_000_000),
        {"type": "function_call_output", "call_id": "c1", "output": "approved"},
        call("pay", "c2", to="eve"),
        {"type": "mcp_approval_response", "approval_request_id": "c2", "approve": False},
        {"role": "user", "content": "go on"},
    ]
    model = ScriptedModel([[call("pay", "c2", to="eve")], "done"])
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    result = await run(agent, history)
    assert (labels(result), effects) == (["c2"], [])
    assert model.calls[0].input == history


async def test_the_recorded_call_runs_whatever_the_model_would_say_now(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """The model is not asked again for what it has said."""
    model = ScriptedModel([[call("pay", "c1", to="ada")], "done"])
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    state = await carry(agent, (await run(agent, "go")).to_state())
    other = ScriptedModel(["something else"])
    agent.model = other
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state)
    assert (effects, result.final_output) == ([("pay", "ada", 5)], "something else")
    assert (len(model.calls), len(other.calls)) == (1, 1)


# -------------------------------------------------------------------------------------------- 16: what was shown


def with_tool(effects: Effects, what: str, replies: Any = None) -> Agent[Any]:
    """One agent in several builds: its tool is not always the same, or not there."""

    async def pay(to: str, amount: int = 5) -> str:
        """Pay somebody."""
        effects.append((what, to, amount))
        return "paid"

    async def pay_required(to: str, reason: str) -> str:
        """Pay somebody."""
        effects.append((what, to, reason))
        return "paid"

    async def pay_default(to: str, amount: int = 500) -> str:
        """Pay somebody."""
        effects.append((what, to, amount))
        return "paid"

    functions: dict[str, Any] = {"required": pay_required, "default": pay_default}
    words = "Pay somebody, quickly." if what == "description" else None
    tool = function_tool(
        functions.get(what, pay), name_override="pay", description_override=words, needs_approval=what != "no gate"
    )
    model = script(*(replies or ([call("pay", "c1", to="ada")],)), "done")
    return Agent("a", model=model, tools=[] if what == "gone" else [tool])


@pytest.mark.parametrize("what", ["description", "default"])
async def test_an_approval_is_void_when_the_tool_changed(run: Run, effects: Effects, what: str) -> None:
    """The call asks again, says how the tool differs, and runs once it is approved anew."""
    agent = with_tool(effects, "")
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    text = state.to_string()
    agent = with_tool(effects, what)
    result = await run(agent, await RunState.from_string(agent, text))
    assert (labels(result), effects, len(agent.model.calls)) == (["c1"], [], 0)
    [item] = result.interruptions
    assert item.difference["before"] != item.difference["after"]
    assert item.difference["after"]["name"] == "pay"
    if what == "description":
        assert item.difference["before"]["description"] == "Pay somebody."
        assert item.difference["after"]["description"] == "Pay somebody, quickly."
    assert "changed" in item.reason
    assert item.params == {"to": "ada", "amount": 500 if what == "default" else 5}
    assert len(events(result, CallVoided)) == 1
    result = await run(agent, await RunState.from_string(agent, result.to_state().to_string()))
    assert (labels(result), effects) == (["c1"], [])
    assert result.interruptions[0].difference == item.difference, "the difference is there until it is decided"
    state = result.to_state()
    state.approve(item_of(state, "c1"))
    result = await run(agent, state)
    assert (result.final_output, len(effects)) == ("done", 1)


async def test_an_approval_is_void_in_hand_too(run: Run, effects: Effects) -> None:
    """The state never left the process; the agent that resumes it was rebuilt."""
    state = (await run(with_tool(effects, ""), "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True)
    result = await run(with_tool(effects, "description"), state)
    assert (labels(result), effects) == (["c1"], [])
    assert result.interruptions[0].difference["after"]["description"] == "Pay somebody, quickly."


async def test_a_call_that_no_longer_fits_the_changed_tool_does_not_run(run: Run, effects: Effects) -> None:
    """The model reads why and can try again."""
    state = (await run(with_tool(effects, ""), "go")).to_state()
    state.approve(item_of(state, "c1"))
    agent = with_tool(effects, "required")
    state = await RunState.from_string(agent, state.to_string())
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", [])
    assert told(agent.model)[0][1].startswith("The arguments of pay are invalid")


async def test_a_tool_that_drops_its_gate_still_waits_for_what_was_asked(run: Run, effects: Effects) -> None:
    """What waits, waits; `needs_approval=False` of a later build approves nothing."""
    state = (await run(with_tool(effects, ""), "go")).to_state()
    agent = with_tool(effects, "no gate")
    result = await run(agent, await RunState.from_string(agent, state.to_string()))
    assert (labels(result), effects) == (["c1"], [])


async def test_a_changed_tool_without_a_gate_asks_all_the_same(run: Run, effects: Effects) -> None:
    """The approval was for another tool; that this one would ask nobody does not matter."""

    async def pay(to: str) -> str:
        """Pay anybody."""
        effects.append(to)
        return "paid"

    state = (await run(with_tool(effects, ""), "go")).to_state()
    state.approve(item_of(state, "c1"))
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[function_tool(pay)])
    result = await run(agent, await RunState.from_string(agent, state.to_string()))
    assert (labels(result), effects) == (["c1"], [])


async def test_a_rejection_needs_no_unchanged_tool(run: Run, effects: Effects) -> None:
    """To refuse is always possible, even where the tool is gone."""
    for what in ("description", "gone"):
        state = (await run(with_tool(effects, ""), "go")).to_state()
        agent = with_tool(effects, what)
        state = await RunState.from_string(agent, state.to_string())
        state.reject(item_of(state, "c1"), rejection_message="no")
        result = await run(agent, state)
        assert (result.final_output, effects, told(agent.model)) == ("done", [], [("c1", "no")])


@pytest.mark.parametrize("decide", [True, False], ids=["approved", "undecided"])
async def test_a_tool_that_is_gone_is_a_typed_error_and_nothing_is_lost(
    run: Run, effects: Effects, decide: bool
) -> None:
    """As often as one tries, and the very same text works once the tool is given back."""
    replies = ([call("pay", "c1", to="ada"), call("look", "c2")],)
    agent = with_tool(effects, "", replies)
    agent.tools.append(look_tool(effects))
    state = (await run(agent, "go")).to_state()
    if decide:
        state.approve(item_of(state, "c1"))
    text = state.to_string()
    for _ in range(2):
        bare = with_tool(effects, "gone")
        loaded = await RunState.from_string(bare, text)
        assert labels(loaded) == ["c1"]
        for _ in range(2):
            with pytest.raises(ToolMissing) as raised:
                await run(bare, loaded)
            assert (raised.value.tool_name, raised.value.agent_name) == ("pay", "a")
    assert (effects, bare.model.calls) == ([("look", "sky")], [])
    loaded = await RunState.from_string(agent, text)
    if not decide:
        loaded.approve(item_of(loaded, "c1"))
    result = await run(agent, loaded)
    assert (result.final_output, effects) == ("done", [("look", "sky"), ("", "ada", 5)])


async def test_a_state_in_hand_goes_on_when_its_tool_is_given_back(run: Run, effects: Effects) -> None:
    """The decision that was in hand is still there."""
    agent, bare = with_tool(effects, ""), with_tool(effects, "gone")
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    for _ in range(2):
        with pytest.raises(ToolMissing):
            await run(bare, state)
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", [("", "ada", 5)])


async def test_a_tool_that_is_disabled_now_is_a_tool_that_is_gone(run: Run, effects: Effects) -> None:
    enabled = [True]
    tool = pay_tool(effects, is_enabled=lambda _context, _agent: enabled[0])
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[tool])
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    enabled[0] = False
    with pytest.raises(ToolMissing):
        await run(agent, state)
    enabled[0] = True
    assert (await run(agent, state)).final_output == "done"
    assert len(effects) == 1


async def test_another_root_agent_is_a_typed_error(run: Run, effects: Effects) -> None:
    """At the load, and at the resume of a state in hand; then the right one works."""
    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    renamed = payer(effects, name="b")
    with pytest.raises(AgentMissing) as raised:
        await RunState.from_string(renamed, state.to_string())
    assert raised.value.agent_path == "a"
    with pytest.raises(AgentMissing):
        await run(renamed, state)
    assert effects == []
    assert (await run(agent, state)).final_output == "done"
    assert len(effects) == 1


async def test_an_agent_that_is_gone_behind_a_handoff_is_a_typed_error(run: Run, effects: Effects) -> None:

    def build(second: str) -> Agent[Any]:
        b = Agent(second, model=script(None, [call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects)])
        return Agent("a", model=script([call(f"transfer_to_{second}", "h1")]), handoffs=[b])

    agent = build("b")
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    text = state.to_string()
    with pytest.raises(AgentMissing) as raised:
        await RunState.from_string(build("z"), text)
    assert raised.value.agent_path == "a/b"
    with pytest.raises(AgentMissing):
        await run(build("z"), state)
    assert effects == []
    result = await run(build("b"), state)
    assert (result.final_output, result.last_agent.name, len(effects)) == ("done", "b", 1)
