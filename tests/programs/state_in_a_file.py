"""A state is kept in a JSON file and taken up by a program that starts anew.

Prints:

    transfer {'amount': 5, 'to': 'rent'}
    Moved. {'user': 'ann'}
"""

import asyncio
import json
import tempfile
from pathlib import Path

from agents import Agent, Runner, RunState, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def transfer(amount: int, to: str = "savings") -> str:
    return f"{amount} to {to}"


def agent_of(*steps: list) -> Agent:
    return Agent(name="Bank", model=ScriptedModel(list(steps)), tools=[transfer])


async def main() -> None:
    path = Path(tempfile.mkdtemp()) / "state.json"
    agent = agent_of([function_call("transfer", {"amount": 5, "to": "rent"}, call_id="t1")])
    result = await Runner.run(agent, "Move 5", context={"user": "ann"})
    path.write_text(json.dumps(result.to_state().to_json()))

    agent = agent_of([assistant_message("Moved.")])
    state = await RunState.from_json(agent, json.loads(path.read_text()))
    for item in state.get_interruptions():
        print(item.name, json.loads(item.arguments))
        state.approve(item)
    result = await Runner.run(agent, state)
    print(result.final_output, result.context_wrapper.context)


asyncio.run(main())
