"""A tool runs another agent, and counts what that uses.

Prints:

    Here it is. 3
    ['Sea, sea, sea.']

Prints with keyturn, on purpose:

    Here it is. 2
    ['Sea, sea, sea.']
"""

from pydantic_ai import Agent, RunContext
from scripted import call, model

poet = Agent(model("Sea, sea, sea."), instructions="Write poems.")
editor = Agent(model(call("poem", about="sea"), "Here it is."), instructions="Pick a poem.")


@editor.tool
async def poem(ctx: RunContext[None], about: str) -> str:
    result = await poet.run(f"A poem about the {about}.", usage=ctx.usage)
    return result.output


result = editor.run_sync("A poem, please.")
print(result.output, result.usage.requests)
print([part.content for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"])
