"""A session class of the program's own.

Prints:

    2
    ['user', 'function_call', 'function_call_output', 'message']
"""

import asyncio
from typing import Any

from agents import Agent, Runner, function_tool
from agents.memory.session import SessionABC
from agents.testing import ScriptedModel, assistant_message, function_call


class ListSession(SessionABC):
    def __init__(self) -> None:
        self.session_id = "mine"
        self.items: list[Any] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return self.items[-limit:] if limit else list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


@function_tool(needs_approval=True)
def note(text: str) -> str:
    return "noted"


async def main() -> None:
    session = ListSession()
    agent = Agent(
        name="A",
        model=ScriptedModel([[function_call("note", {"text": "x"}, call_id="n1")], [assistant_message("ok")]]),
        tools=[note],
    )
    result = await Runner.run(agent, "Note x", session=session)
    print(len(session.items))
    state = result.to_state()
    state.reject(result.interruptions[0])
    await Runner.run(agent, state, session=session)
    print([item.get("type") or item["role"] for item in session.items])


asyncio.run(main())
