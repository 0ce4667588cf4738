"""What has no effect where it is given is refused there, with what to do in its place, and not passed over."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from keyturn import Agent, FunctionTool, MemoryJournal, RunConfig, Runner, RunState, UserError, function_tool
from keyturn.testing import ScriptedModel, approve_all, function_call, tool_outputs
from keyturn.tools.base import Handover

AGENT = Agent("desk", model=ScriptedModel([]))
JOURNAL = MemoryJournal()


def _pickled(state: Any) -> Any:
    return pickle.loads(pickle.dumps(state))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
def test_a_state_is_saved_and_not_copied(copied: Callable[[Any], Any]) -> None:
    state = RunState(context=None, original_input="go", starting_agent=AGENT)
    with pytest.raises(UserError, match=r"save it with to_string\(\), and load it with from_string\(\)"):
        copied(state)


@pytest.mark.each
@pytest.mark.parametrize("given", [("r1", JOURNAL, AGENT), (AGENT, JOURNAL, "r1"), (JOURNAL, AGENT, "r1")])
async def test_arguments_of_a_load_in_each_others_place_are_named(given: Any) -> None:
    with pytest.raises(UserError, match=r"is a .*, not .*: load\(journal, run_id, agent\)"):
        await RunState.load(*given)


async def test_a_run_is_loaded_with_an_agent() -> None:
    text = RunState(context=None, original_input="go", starting_agent=AGENT).to_string()
    not_one: Any = "desk"
    for load in (RunState.load(JOURNAL, "r1", not_one), RunState.from_string(not_one, text)):
        with pytest.raises(UserError, match="with the agent that started it, not with str"):
            await load


@pytest.mark.parametrize("config", [RunConfig(paused_session="queue"), {"paused_session": "queue"}])
def test_a_nested_agent_waits_for_no_turn_on_its_session(config: Any) -> None:
    with pytest.raises(UserError, match="is for a whole run, which is queued"):
        AGENT.as_tool("ask", "asks", run_config=config)


async def test_a_tool_of_ones_own_hands_over_alone() -> None:
    """Beside calls that wait, nothing of it is in doubt, and its agent stays."""

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        return "paid"

    async def over(_context: Any, _arguments: str) -> Any:
        return Handover(Agent("other", model=ScriptedModel([])), "over", None)

    handing = FunctionTool("over", "x", {"type": "object", "properties": {}}, over, strict_json_schema=False)
    calls = [function_call("pay", {"amount": 1}), function_call("over", {}, call_id="c2")]
    model = ScriptedModel([calls, "stayed"])
    agent = Agent("desk", model=model, tools=[pay, handing])
    paused = await Runner.run(agent, "go")
    assert [call.name for call in paused.interruptions] == ["pay"]
    done = await Runner.run(agent, approve_all(paused))
    assert (done.final_output, "make it alone" in tool_outputs(model.calls[-1])["c2"]) == ("stayed", True)
