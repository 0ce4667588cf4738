"""A journal: one process starts a run and ends, another one finds it by its id and goes on.

Prints:

    the run waits; this process may end
    found again: refund {'order': 'A-1'}
    You get your money back.
    on record: refund, approve by ada
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from keyturn import Agent, Inbox, Runner, RunState, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Send money back."""
    return f"refunded {order}"


def reply(request: Any) -> Any:
    return "You get your money back." if tool_outputs(request) else [function_call("refund", {"order": "A-1"})]


def support() -> Agent[None]:  # every process builds the same agent
    return Agent[None](name="Support", model=ScriptedModel(reply), tools=[refund])


async def ask(journal: str) -> str:
    result = await Runner.run(support(), "I want my money back.", journal=journal)
    print("the run waits; this process may end")
    return result.run_id


async def decide(journal: str, run_id: str) -> None:
    agent = support()
    state = await RunState.load(journal, run_id, agent)
    for call in state.get_interruptions():
        print("found again:", call.name, call.params)
        state.approve(call, by="ada")
    print((await Runner.run(agent, state)).final_output)

    [row] = await Inbox(journal).list(run=run_id, state="approve")
    print(f"on record: {row.tool}, {row.state} by {row.by}")


def main() -> None:
    with TemporaryDirectory() as folder:
        journal = f"sqlite:///{Path(folder, 'runs.db')}"
        asyncio.run(decide(journal, asyncio.run(ask(journal))))


if __name__ == "__main__":
    main()
