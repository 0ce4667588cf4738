"""The model asks a person: the question waits like any call, for as long as it takes, and the answer is its result.

Prints:

    Which colour should the button be? ['Blue', 'Green']
    not taken: the answer must be one of the choices, as it is written there
    The button is Green now.
"""

import asyncio
from typing import Any

from keyturn import Agent, Runner, RunState, ask_user
from keyturn.testing import ModelRequest, ScriptedModel, function_call, tool_outputs

QUESTION = {"question": "Which colour should the button be?", "choices": ["Blue", "Green"]}


def reply(request: ModelRequest) -> Any:
    told = tool_outputs(request)
    return f"The button is {told['q1']} now." if told else [function_call("ask_user", QUESTION, call_id="q1")]


async def main() -> None:
    agent = Agent(name="Design", model=ScriptedModel(reply), tools=[ask_user()])

    result = await Runner.run(agent, "Make the button nicer.")
    state, (asked,) = result.to_state(), result.interruptions
    print(asked.requests["question"], asked.requests["choices"])
    saved = state.to_string()  # days may pass, and the answer may be given in another process

    state = await RunState.from_string(agent, saved)
    state.answer(state.get_interruptions()[0], "Bleu", by="ada")
    result = await Runner.run(agent, state)
    state, (asked,) = result.to_state(), result.interruptions
    print("not taken:", asked.requests["problem"])

    state.answer(asked, "Green", by="ada")
    print((await Runner.run(agent, state)).final_output)


if __name__ == "__main__":
    asyncio.run(main())
