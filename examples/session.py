"""A session keeps a conversation between runs. A run that pauses on it leaves no call without a result.

Prints:

    asks: cancel_order {'order': 'A-17'}
    Your order is cancelled.
    You asked about order A-17.
    kept: user, function_call, function_call_output, assistant, user, assistant
"""

import asyncio

from keyturn import Agent, Runner, SQLiteSession, function_tool
from keyturn.testing import ScriptedModel, approve_all, function_call


@function_tool(needs_approval=True)
def cancel_order(order: str) -> str:
    """Cancel an order."""
    return f"cancelled {order}"


async def main() -> None:
    session = SQLiteSession("ada")  # in memory; SQLiteSession("ada", "conversations.db") keeps a file
    model = ScriptedModel(
        [
            [function_call("cancel_order", {"order": "A-17"})],
            "Your order is cancelled.",
            "You asked about order A-17.",
        ]
    )
    agent = Agent(name="Support", model=model, tools=[cancel_order])

    result = await Runner.run(agent, "Cancel order A-17.", session=session)
    (call,) = result.interruptions
    print("asks:", call.name, call.params)
    result = await Runner.run(agent, approve_all(result), session=session)
    print(result.final_output)

    result = await Runner.run(agent, "What did I ask?", session=session)
    print(result.final_output)
    items = await session.get_items()
    print("kept:", ", ".join(item.get("role") or item["type"] for item in items))
    session.close()


if __name__ == "__main__":
    asyncio.run(main())
