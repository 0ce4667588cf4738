"""A shell tool without a setting: there its commands run, here they ask.

Prints:

    [] Listed.

Prints with keyturn, on purpose:

    ['shell'] None
    Listed.
"""

import asyncio

from agents import Agent, Runner, ShellCommandRequest, ShellTool
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses import ResponseFunctionShellToolCall


def execute(request: ShellCommandRequest) -> str:
    return "ran " + " ; ".join(request.data.action.commands)


async def main() -> None:
    action = {"commands": ["ls"], "timeout_ms": 1000, "max_output_length": 100}
    call = {"id": "sh1", "type": "shell_call", "call_id": "s1", "status": "completed", "action": action}
    step = [ResponseFunctionShellToolCall.model_validate(call)]
    agent = Agent(
        name="Shell", model=ScriptedModel([step, [assistant_message("Listed.")]]), tools=[ShellTool(executor=execute)]
    )
    result = await Runner.run(agent, "List")
    print([item.name for item in result.interruptions], result.final_output)
    if result.interruptions:
        state = result.to_state()
        state.approve(result.interruptions[0])
        print((await Runner.run(agent, state)).final_output)


asyncio.run(main())
