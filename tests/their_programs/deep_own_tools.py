"""A deep agent has tools of the program's own, typed answers and dependencies.

Prints:

    Report(city='Rome', degrees=21)
    Rome: 21, 0 todos
"""

import asyncio

from pydantic import BaseModel
from pydantic_ai import RunContext
from pydantic_deep import DeepAgentDeps, create_deep_agent
from scripted import Answer, call, model


class Report(BaseModel):
    city: str
    degrees: int


async def weather(ctx: RunContext[DeepAgentDeps], city: str) -> str:
    """Tell the weather."""
    return f"{city}: 21, {len(ctx.deps.todos)} todos"


async def main() -> None:
    steps = model(call("weather", city="Rome"), Answer({"city": "Rome", "degrees": 21}))
    agent = create_deep_agent(model=steps, tools=[weather], output_type=Report)
    result = await agent.run("The weather in Rome?", deps=DeepAgentDeps())
    print(repr(result.output))
    returns = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    print(returns[0].content)


asyncio.run(main())
