"""Usage over a pause, and the turn limit.

Prints:

    2 20 4 24
    stopped after 2
"""

import asyncio

from agents import Agent, MaxTurnsExceeded, Runner, Usage, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def step() -> str:
    return "stepped"


async def main() -> None:
    def used(*output: object) -> ModelStep:
        return ModelStep(
            output=list(output), usage=Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12)
        )

    model = ScriptedModel([used(function_call("step", {}, call_id="s1")), used(assistant_message("Done."))])
    agent = Agent(name="A", model=model, tools=[step])
    result = await Runner.run(agent, "Go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    usage = result.context_wrapper.usage
    print(usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens)

    @function_tool
    def loop() -> str:
        return "again"

    model = ScriptedModel([[function_call("loop", {}, call_id=f"l{n}")] for n in range(5)])
    try:
        await Runner.run(Agent(name="B", model=model, tools=[loop]), "Loop", max_turns=2)
    except MaxTurnsExceeded:
        print("stopped after", len(model.calls))


asyncio.run(main())
