"""Two layers of approval: whether the expert may be asked at all, and what the expert may do then.

Both surface on the one outer run: one list of interruptions, one state, one resume, at any depth.

Prints:

    Desk asks for ask_lawyer
    Lawyer asks for sign
    The contract is signed.
"""

import asyncio

from keyturn import Agent, Runner, function_tool
from keyturn.testing import ScriptedModel, function_call


@function_tool(needs_approval=True)  # layer two: the nested agent's own tool
def sign(contract: str) -> str:
    """Sign a contract."""
    return f"signed {contract}"


async def main() -> None:
    lawyer = Agent(
        name="Lawyer",
        model=ScriptedModel([[function_call("sign", {"contract": "C-9"})], "I signed it."]),
        tools=[sign],
    )
    desk = Agent(
        name="Desk",
        model=ScriptedModel([[function_call("ask_lawyer", {"input": "Sign C-9?"})], "The contract is signed."]),
        tools=[lawyer.as_tool("ask_lawyer", "Asks the lawyer.", needs_approval=True)],  # layer one
    )

    result = await Runner.run(desk, "Please get C-9 signed.")
    while result.interruptions:
        state = result.to_state()
        for call in state.get_interruptions():
            print(call.agent.name, "asks for", call.name)
            state.approve(call)
        result = await Runner.run(desk, state)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
