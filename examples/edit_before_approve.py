"""A person changes the arguments and approves the changed call; the model is told what really ran.

An edit is checked by the tool's own schema. One that does not fit decides nothing.

Prints:

    refused: UserError
    sent: Hello all, 10 % off this week.
    the model reads that a person changed its call: True
"""

import asyncio

from keyturn import Agent, Runner, UserError, function_tool
from keyturn.testing import ScriptedModel, function_call


@function_tool(needs_approval=True)
def send_mail(subscribers: int, text: str) -> str:
    """Send a mail to many people."""
    print("sent:", text)
    return f"sent to {subscribers}"


async def main() -> None:
    wanted = {"subscribers": 50_000, "text": "HELLO!!! 90 % OFF!!!"}
    model = ScriptedModel([[function_call("send_mail", wanted)], "Sent."])
    agent = Agent(name="Marketing", model=model, tools=[send_mail])

    result = await Runner.run(agent, "Tell our subscribers about the sale.")
    state, (call,) = result.to_state(), result.interruptions
    try:
        state.approve(call, edit={"subscribers": "all", "text": "Hello"})
    except UserError as error:
        print("refused:", type(error).__name__)
    state.approve(call, edit={**call.params, "text": "Hello all, 10 % off this week."}, by="ada")
    result = await Runner.run(agent, state)

    told = next(item.output for item in result.new_items if item.type == "tool_call_output_item")
    print("the model reads that a person changed its call:", "A person changed the arguments" in told)


if __name__ == "__main__":
    asyncio.run(main())
