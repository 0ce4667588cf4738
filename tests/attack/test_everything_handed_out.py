"""What an attack found, held since: whatever is handed to code that is not ours, all of it may be edited to no effect.

One run hands out everything that it hands out at all, and each receiver overwrites each text in each dict and list.
What a second, untouched run of the same script records is what the first one must have recorded.
"""

import asyncio
import copy
import dataclasses
import json
from typing import Any

from keyturn import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    ModelResponse,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ToolContext,
    function_tool,
    handoff,
    input_guardrail,
)
from keyturn.testing import ScriptedModel, approve_all, function_call

SPOILED = "SPOILED"


def spoil(value: Any) -> None:
    """Overwrite every text below a value that can be overwritten."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name in ("raw_item", "output", "input", "input_history", "pre_handoff_items", "new_items"):
            spoil(getattr(value, name, None))
        return
    if isinstance(value, tuple):
        for part in value:
            spoil(part)
    if not isinstance(value, dict | list):
        return
    for place, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(part, str):
            value[place] = SPOILED
        else:
            spoil(part)


class Spoils(ScriptedModel):
    """A model that edits what it is given, as an adapter may that prepares its request in place."""

    spoils = True

    async def get_response(self, instructions: Any, given: Any, *args: Any, **options: Any) -> ModelResponse:
        self.seen = json.dumps(given)
        response = await super().get_response(instructions, given, *args, **options)
        if self.spoils:
            spoil(given)
        return response


def made(spoil: Any) -> tuple[Agent[Any], dict[str, Any]]:
    """An agent and options whose every callback does that with what it is given."""

    @function_tool
    def look(context: ToolContext[Any], where: str) -> list[dict[str, str]]:
        spoil(context.turn_input)
        spoil(context.tool_call)
        found.append({"type": "input_text", "text": f"at {where}"})
        return found

    @function_tool(needs_approval=True)
    def pay(context: ToolContext[Any], n: int) -> str:
        spoil(found)  # what it returned a turn ago
        spoil(context.turn_input)
        return f"paid {n}"

    @input_guardrail(run_in_parallel=False)
    def checks(_context: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
        spoil(given)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    class Watch(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            spoil(input_items)

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            spoil(response)

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            spoil(result)

    class Own(AgentHooks[Any]):
        on_llm_start, on_llm_end = Watch.on_llm_start, Watch.on_llm_end

    def narrows(data: Any) -> Any:
        answer = dataclasses.replace(data, input_history=copy.deepcopy(data.input_history))
        spoil(data)
        return dataclasses.replace(answer, pre_handoff_items=(), new_items=())

    found: list[dict[str, str]] = []
    second = Agent("second", model=Spoils([[function_call("pay", {"n": 1}, call_id="c3")], "done"]), tools=[pay])
    replies = [
        [function_call("look", {"where": "home"}, call_id="c1")],
        [function_call("transfer_to_second", {}, call_id="c2")],
    ]
    first = Agent(
        "first",
        model=Spoils(replies),
        tools=[look],
        handoffs=[handoff(second, input_filter=narrows)],
        input_guardrails=[checks],
        hooks=Own(),
    )
    config = RunConfig(trace_metadata={"of": ["true"]})
    return first, {"hooks": Watch(), "run_config": config}


def played(spoil: Any) -> list[list[Any]]:
    """What a run records, paused, edited everywhere, resumed in hand."""
    agent, options = made(spoil)
    given: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "true words"}]}]
    state: RunState[Any] = RunState(None, given, agent)
    state.add_input([{"role": "user", "content": "and more"}])
    spoil(state.pending_input)
    spoil(given)
    paused = Runner.run_sync(agent, state, **options)
    for result in (paused, Runner.run_sync(agent, approve_all(paused), **options)):
        spoil(options["run_config"].trace_metadata)
        spoil(result.input)
        spoil(result.to_input_list())
        for item in [*result.new_items, *result.raw_responses]:
            spoil(item)
        for item in result.interruptions:
            spoil(item.params)
            spoil([block.value for block in item.preview.blocks])
    assert result.final_output == "done"
    lines = [json.loads(line) for line in json.loads(result.to_state().to_string())["log"].split("\n")]
    return [[event for event in line["events"] if event.pop("salt", 1) and event.pop("run", 1)] for line in lines]


def test_everything_that_is_handed_out_can_be_edited() -> None:
    spoiled, untouched = played(spoil), played(lambda _given: None)
    assert SPOILED not in json.dumps(spoiled)
    for events in (spoiled, untouched):
        for event in (event for step in events for event in step):
            for name in ("decision", "at", "preview"):
                event.pop(name, None)
    assert spoiled == untouched


def test_one_model_sees_its_own_edits_and_no_other_reader_does() -> None:
    """The copies are made once for each reader, and again by whoever loads the run."""

    @function_tool(needs_approval=True)
    def pay(n: int) -> str:
        return f"paid {n}"

    model = Spoils([[function_call("pay", {"n": 1})], "done"])
    agent = Agent("a", model=model, tools=[pay])
    text = approve_all(Runner.run_sync(agent, [{"role": "user", "content": "true words"}])).to_string()

    async def go_on() -> None:
        await Runner.run(agent, await RunState.from_string(agent, text))

    asyncio.run(go_on())
    assert "true words" in model.seen
    assert SPOILED not in model.seen
