"""A session remembers, forgets its last item, and is cleared.

Prints:

    3 4 2
    assistant You are Ann.
    2
    []
"""

import asyncio

from agents import Agent, RunConfig, Runner, SessionSettings, SQLiteSession
from agents.testing import ScriptedModel, assistant_message


async def main() -> None:
    session = SQLiteSession("user_1", ":memory:")
    model = ScriptedModel([[assistant_message(text)] for text in ("Hello Ann.", "You are Ann.", "Hello.")])
    agent = Agent(name="Assistant", model=model)
    await Runner.run(agent, "I am Ann", session=session)
    await Runner.run(agent, "Who am I?", session=session)
    print(len(model.calls[-1].input), len(await session.get_items()), len(await session.get_items(limit=2)))
    last = await session.pop_item()
    print(last["role"], last["content"][0]["text"])
    await Runner.run(agent, "And?", session=session, run_config=RunConfig(session_settings=SessionSettings(limit=1)))
    print(len(model.calls[-1].input))
    await session.clear_session()
    print(await session.get_items())


asyncio.run(main())
