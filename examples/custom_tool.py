"""A tool that takes a text in place of JSON: here a query, held to a grammar by the provider, shown as code to people.

A person may put another text in its place; the model is told.

Prints:

    delete from orders
    1 row
    the model reads: A person changed the arguments of this call before approving it.
"""

import asyncio
from typing import Any

from keyturn import Agent, CustomTool, Runner, ToolContext
from keyturn.testing import ScriptedModel

GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "(select|delete) .+"}


async def query(context: ToolContext[Any], text: str) -> str:
    print("1 row")
    return "1 row"


def needs_approval(context: Any, text: str, call_id: str) -> bool:
    return not text.startswith("select ")


async def main() -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "query", "input": "delete from orders"}
    tool = CustomTool("query", "Runs a query.", query, format=GRAMMAR, needs_approval=needs_approval, language="sql")
    model = ScriptedModel([[call], "Done."])
    agent = Agent(name="Analyst", model=model, tools=[tool])

    result = await Runner.run(agent, "Tidy up.")
    (waiting,) = result.interruptions
    print(waiting.params)
    state = result.to_state()
    state.approve(waiting, edit="delete from orders where id = 7", by="ada")
    await Runner.run(agent, state)
    print("the model reads:", model.calls[1].input[-1]["output"].split(" It ran")[0])


if __name__ == "__main__":
    asyncio.run(main())
