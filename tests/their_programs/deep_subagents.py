"""A deep agent hands a task to a subagent.

Prints:

    Tea: a plant.
    1 True
"""

import asyncio

from pydantic_deep import DeepAgentDeps, SubAgentConfig, create_deep_agent
from scripted import call, model

RESEARCHER: SubAgentConfig = {"name": "researcher", "description": "Looks things up.", "instructions": "Be brief."}
steps = model(call("task", description="Look up tea.", subagent_type="researcher"), "Tea is a plant.", "Tea: a plant.")


async def main() -> None:
    agent = create_deep_agent(model=steps, subagents=[RESEARCHER])
    result = await agent.run("What is tea?", deps=DeepAgentDeps())
    print(result.output)
    returns = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    print(len(returns), "Tea is a plant." in str(returns[0].content))


asyncio.run(main())
