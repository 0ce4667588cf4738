"""A decision for all later calls of the tool survives the text of the state.

Prints:

    ['a', 'b', 'c'] 0 All restarted.
"""

import asyncio

from agents import Agent, Runner, RunState, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

ran: list[str] = []


@function_tool(needs_approval=True)
def restart(host: str) -> str:
    ran.append(host)
    return f"restarted {host}"


async def main() -> None:
    steps = [[function_call("restart", {"host": host}, call_id=host)] for host in ("a", "b", "c")]
    model = ScriptedModel([*steps, [assistant_message("All restarted.")]])
    agent = Agent(name="Ops", model=model, tools=[restart])
    result = await Runner.run(agent, "Restart a, b and c")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    state = await RunState.from_string(agent, state.to_string())
    result = await Runner.run(agent, state)
    print(ran, len(result.interruptions), result.final_output)


asyncio.run(main())
