"""Requests leave as JSON, and answers come back as JSON.

Prints:

    [('pay', {'amount': 5}, 'p1'), ('pay', {'amount': 6}, 'p2')]
    Paid.
    ['paid 5', 'Too much.']
"""

import json

from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter
from scripted import call, model

agent = Agent(
    model([call("pay", "p1", amount=5), call("pay", "p2", amount=6)], "Paid."), output_type=[str, DeferredToolRequests]
)


@agent.tool_plain(requires_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


result = agent.run_sync("Pay both.")
sent = json.loads(TypeAdapter(DeferredToolRequests).dump_json(result.output))
print([(part["tool_name"], part["args"], part["tool_call_id"]) for part in sent["approvals"]])
kept = result.all_messages_json()
body = {"approvals": {"p1": {"kind": "tool-approved"}, "p2": {"kind": "tool-denied", "message": "Too much."}}}
answers = TypeAdapter(DeferredToolResults).validate_python(body)
result = agent.run_sync(message_history=ModelMessagesTypeAdapter.validate_json(kept), deferred_tool_results=answers)
print(result.output)
print([part.content for part in result.new_messages()[0].parts])
