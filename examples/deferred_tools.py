"""A run returns the calls that wait, the messages travel as JSON, and the answers are given another time.

Prints:

    transfer {'to': 'ada', 'amount': 300}
    forged: message_history[1] is not as the run left it
    Done. ['30 to ada']
"""

import asyncio

from keyturn import StateRejected
from keyturn.deferred import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, messages_from_json
from keyturn.testing import ScriptedModel, function_call

SENT: list[str] = []
STEPS = [[function_call("transfer", {"to": "ada", "amount": 300}, call_id="c1")], "Done."]


def bank() -> Agent[None]:
    agent: Agent[None] = Agent(ScriptedModel(STEPS), output_type=[str, DeferredToolRequests], name="bank")

    @agent.tool_plain(requires_approval=True)
    def transfer(to: str, amount: int) -> str:
        SENT.append(f"{amount} to {to}")
        return "sent"

    return agent


async def main() -> None:
    agent = bank()
    result = await agent.run("Pay Ada.")
    (call,) = result.output.approvals
    print(call.tool_name, call.args)
    saved = result.all_messages_json()  # days may pass, and a browser may have it meanwhile

    override = ToolApproved(override_args={"to": "ada", "amount": 30}, by="bob")
    answers = DeferredToolResults(approvals={call.tool_call_id: override})
    try:
        forged = messages_from_json(saved.replace(b'"amount":300', b'"amount":999'))
        await agent.run(message_history=forged, deferred_tool_results=answers)
    except StateRejected as error:
        print("forged:", str(error).split(":")[0])

    done = await agent.run(message_history=messages_from_json(saved), deferred_tool_results=answers)
    print(done.output, SENT)


if __name__ == "__main__":
    asyncio.run(main())
