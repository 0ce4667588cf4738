"""Instructions of a function, tools that read and write the context.

Prints:

    You help Ann. ['remember:r1:tea'] True
"""

import asyncio
from dataclasses import dataclass, field

from agents import Agent, RunContextWrapper, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext


@dataclass
class User:
    name: str
    log: list[str] = field(default_factory=list)


def instructions(ctx: RunContextWrapper[User], agent: Agent[User]) -> str:
    return f"You help {ctx.context.name}."


@function_tool
def remember(ctx: ToolContext[User], what: str) -> str:
    ctx.context.log.append(f"{ctx.tool_name}:{ctx.tool_call_id}:{what}")
    return "ok"


async def main() -> None:
    user = User("Ann")
    model = ScriptedModel([[function_call("remember", {"what": "tea"}, call_id="r1")], [assistant_message("Noted.")]])
    agent = Agent[User](name="Helper", instructions=instructions, model=model, tools=[remember])
    result = await Runner.run(agent, "I like tea", context=user)
    print(model.calls[0].system_instructions, user.log, result.context_wrapper.context is user)


asyncio.run(main())
