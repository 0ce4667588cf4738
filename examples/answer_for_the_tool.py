"""A person gives the result instead of the tool: for questions to people, and for work done by hand.

Prints:

    What colour should the button be?
    The button is green now.
"""

import asyncio
from typing import Any

from keyturn import Agent, Runner, function_tool
from keyturn.testing import ModelRequest, ScriptedModel, function_call, tool_outputs


@function_tool(needs_approval=True)
def ask_person(question: str) -> str:
    """Ask whoever is in charge."""
    return "Nobody answered."  # runs only if somebody approves instead of answering


def reply(request: ModelRequest) -> Any:
    told = tool_outputs(request)
    if not told:
        return [function_call("ask_person", {"question": "What colour should the button be?"}, call_id="q1")]
    return f"The button is {told['q1']} now."


async def main() -> None:
    agent = Agent(name="Design", model=ScriptedModel(reply), tools=[ask_person])

    result = await Runner.run(agent, "Make the button nicer.")
    state, (call,) = result.to_state(), result.interruptions
    print(call.params["question"])
    state.answer(call, "green", by="ada")
    print((await Runner.run(agent, state)).final_output)


if __name__ == "__main__":
    asyncio.run(main())
