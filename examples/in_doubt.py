"""A tool that was started and never reported is in doubt: a person says what became of it, it never just runs again.

Keyturn promises "at most once without a person's word", never "exactly once".

Prints:

    in doubt: transfer {'amount': 900}
    calls of the bank: 1
    The transfer went through; the bank says TX-81.
"""

import asyncio
from typing import Any

from keyturn import Agent, Runner, function_tool
from keyturn.testing import ModelRequest, ScriptedModel, function_call, tool_outputs

bank: list[int] = []
at_the_bank = asyncio.Event()


@function_tool
async def transfer(amount: int) -> str:
    """Move money."""
    bank.append(amount)
    at_the_bank.set()
    await asyncio.Event().wait()  # the bank never answers
    return "done"


def reply(request: ModelRequest) -> Any:
    told = tool_outputs(request)
    if not told:
        return function_call("transfer", {"amount": 900}, call_id="t1")
    return f"The transfer went through; {told['t1']}."


async def main() -> None:
    bank.clear()
    agent = Agent(name="Treasury", model=ScriptedModel(reply), tools=[transfer])

    stream = Runner.run_streamed(agent, "Pay the rent.")
    await at_the_bank.wait()
    stream.cancel()  # or its time limit; with a journal that outlives it, also the end of the process
    async for _ in stream.stream_events():
        pass

    state = stream.to_state()
    (call,) = state.get_interruptions()
    print(f"{call.kind.replace('_', ' ')}: {call.name} {call.params}")
    state.resolve(call, "ran", "the bank says TX-81", by="ada")  # or "did_not_run", or "retry"
    result = await Runner.run(agent, state)
    print("calls of the bank:", len(bank))
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
