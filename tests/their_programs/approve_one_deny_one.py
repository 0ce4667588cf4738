"""Two calls wait; one is approved, one is denied with words for the model.

Prints:

    delete_file d1 {'path': 'notes.txt'}
    delete_file d2 {'path': '.env'}
    One is gone.
    delete_file deleted notes.txt
    delete_file secrets stay
"""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from scripted import call, model

steps = model([call("delete_file", "d1", path="notes.txt"), call("delete_file", "d2", path=".env")], "One is gone.")
agent = Agent(steps, output_type=[str, DeferredToolRequests], instructions="Tidy up.")


@agent.tool_plain(requires_approval=True)
def delete_file(path: str) -> str:
    return f"deleted {path}"


result = agent.run_sync("Delete what is not needed.")
assert isinstance(result.output, DeferredToolRequests)
results = DeferredToolResults()
for waiting in result.output.approvals:
    print(waiting.tool_name, waiting.tool_call_id, waiting.args)
    if waiting.args_as_dict()["path"] == ".env":
        results.approvals[waiting.tool_call_id] = ToolDenied("secrets stay")
    else:
        results.approvals[waiting.tool_call_id] = ToolApproved()
result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=results)
print(result.output)
for message in result.all_messages():
    for part in message.parts:
        if part.part_kind == "tool-return":
            print(part.tool_name, part.content)
