"""A rejection with words of its own, and a formatter for those without.

Prints:

    Not published.
    ['Mind the style guide.', 'publish was turned down by a reviewer']
"""

import asyncio

from agents import Agent, RunConfig, Runner, ToolErrorFormatterArgs, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def publish(title: str) -> str:
    return "published"


def words(args: ToolErrorFormatterArgs[None]) -> str | None:
    if args.kind != "approval_rejected":
        return None
    return f"{args.tool_name} was turned down by a reviewer"


async def main() -> None:
    calls = [function_call("publish", {"title": title}, call_id=title) for title in ("one", "two")]
    model = ScriptedModel([calls, [assistant_message("Not published.")]])
    agent = Agent(name="Editor", model=model, tools=[publish])
    config = RunConfig(tool_error_formatter=words)
    result = await Runner.run(agent, "Publish both", run_config=config)
    state = result.to_state()
    first, second = result.interruptions
    state.reject(first, rejection_message="Mind the style guide.")
    state.reject(second)
    result = await Runner.run(agent, state, run_config=config)
    print(result.final_output)
    print([item["output"] for item in model.calls[-1].input if item.get("type") == "function_call_output"])


asyncio.run(main())
