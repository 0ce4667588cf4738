"""Dependencies reach tools and instructions.

Prints:

    count c1 Ada
    There are 3.
    [3]

Prints with keyturn, on purpose:

    count c1 Ada
    There are 3.
    ['3']
"""

from dataclasses import dataclass

from pydantic_ai import Agent, RunContext
from scripted import call, model


@dataclass
class Shop:
    owner: str
    stock: dict[str, int]


agent = Agent(model(call("count", what="tea"), "There are 3."), deps_type=Shop, system_prompt="You mind a shop.")


@agent.system_prompt
def owner(ctx: RunContext[Shop]) -> str:
    return f"It is {ctx.deps.owner}'s."


@agent.tool
async def count(ctx: RunContext[Shop], what: str) -> int:
    """Count what is there.

    Args:
        ctx: The run.
        what: The thing.
    """
    print(ctx.tool_name, ctx.tool_call_id, ctx.deps.owner)
    return ctx.deps.stock[what]


result = agent.run_sync("How much tea?", deps=Shop("Ada", {"tea": 3}))
print(result.output)
print([part.content for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"])
