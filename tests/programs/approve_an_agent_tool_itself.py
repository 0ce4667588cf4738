"""The delegation asks, and so does the tool inside, one after the other.

Prints:

    asks: ask_writer
    asks: send_mail
    All done.
"""

import asyncio

from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def send_mail(to: str) -> str:
    return f"sent to {to}"


async def main() -> None:
    writer = Agent(
        name="Writer",
        model=ScriptedModel(
            [[function_call("send_mail", {"to": "ann"}, call_id="m1")], [assistant_message("Mailed Ann.")]]
        ),
        tools=[send_mail],
    )
    model = ScriptedModel(
        [[function_call("ask_writer", {"input": "mail Ann"}, call_id="w1")], [assistant_message("All done.")]]
    )
    tool = writer.as_tool(tool_name="ask_writer", tool_description="Writes mails.", needs_approval=True)
    agent = Agent(name="Boss", model=model, tools=[tool])
    result = await Runner.run(agent, "Mail Ann")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            print("asks:", item.name)
            state.approve(item)
        result = await Runner.run(agent, state)
    print(result.final_output)


asyncio.run(main())
