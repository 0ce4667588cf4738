"""A tool asks for some calls only, says why, and is told what the person added.

Prints:

    ['p2'] {'p2': {'limit': 100}}
    Both are paid.
    ["paid 500 {'by': 'ann'}", 'Both are paid.']
"""

from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, RunContext
from scripted import call, model

steps = model([call("pay", "p1", amount=5), call("pay", "p2", amount=500)], "Both are paid.")
agent = Agent(steps, output_type=[str, DeferredToolRequests])


@agent.tool
def pay(ctx: RunContext[None], amount: int) -> str:
    if amount > 100 and not ctx.tool_call_approved:
        raise ApprovalRequired(metadata={"limit": 100})
    return f"paid {amount} {ctx.tool_call_metadata}"


result = agent.run_sync("Pay both.")
requests = result.output
print([waiting.tool_call_id for waiting in requests.approvals], requests.metadata)
answers = DeferredToolResults(approvals={"p2": True}, metadata={"p2": {"by": "ann"}})
result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers)
print(result.output)
print([part.content for message in result.new_messages() for part in message.parts])
