"""Arguments that do not fit are told to the model, and no person is asked about them.

Prints:

    ['p2']
    Paid.
    ['paid 10 to ada']
"""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from scripted import call, model

steps = model(call("pay", "p1", amount="much"), call("pay", "p2", amount=10), "Paid.")
agent = Agent(steps, output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def pay(amount: int, to: str = "ada") -> str:
    return f"paid {amount + 0} to {to}"


result = agent.run_sync("Pay.")
print([part.tool_call_id for part in result.output.approvals])
result = agent.run_sync(
    message_history=result.all_messages(), deferred_tool_results=DeferredToolResults(approvals={"p2": True})
)
print(result.output)
print([part.content for part in result.new_messages()[0].parts])
