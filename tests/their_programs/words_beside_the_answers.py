"""A new prompt comes along with the answers.

Prints:

    send response
    Sent, and I will be quick.
    [('tool-return', 'sent to bob'), ('user-prompt', 'And be quick.')]
"""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from scripted import call, model

agent = Agent(model(call("send", "s1", to="bob"), "Sent, and I will be quick."))


@agent.tool_plain(requires_approval=True)
def send(to: str) -> str:
    return f"sent to {to}"


result = agent.run_sync("Write to Bob.", output_type=[str, DeferredToolRequests])
history = result.all_messages()
print(history[-1].parts[0].tool_name, history[-1].kind)
result = agent.run_sync(
    "And be quick.",
    message_history=history,
    deferred_tool_results=DeferredToolResults(approvals={"s1": True}),
    output_type=[str, DeferredToolRequests],
)
print(result.output)
print([(part.part_kind, part.content) for part in result.new_messages()[0].parts])
