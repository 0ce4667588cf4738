"""A toolset whose calls ask by their arguments.

Prints:

    [{'path': '/etc/c'}]
    Ok.
    []
    []
    ['text of /etc/a', 'removed /tmp/b']
    ['The tool call was denied.']
    []

Prints with keyturn, on purpose:

    [{'path': '/etc/c'}]
    Ok.
    []
    []
    ['text of /etc/a', 'removed /tmp/b', 'The tool call was denied.']
    []
"""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.toolsets import FunctionToolset
from scripted import call, model


def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


files = FunctionToolset(tools=[read])


@files.tool_plain
def remove(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


gated = files.approval_required(
    lambda ctx, tool_def, tool_args: tool_def.name == "remove" and "etc" in tool_args["path"]
)
steps = model(
    [call("read", "c1", path="/etc/a"), call("remove", "c2", path="/tmp/b"), call("remove", "c3", path="/etc/c")], "Ok."
)
agent = Agent(steps, toolsets=[gated], output_type=[str, DeferredToolRequests])
result = agent.run_sync("Tidy up.")
print([part.args_as_dict() for part in result.output.approvals])
no = DeferredToolResults(approvals={"c3": False})
result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=no)
print(result.output)
for message in result.all_messages():
    print([part.content for part in message.parts if part.part_kind == "tool-return"])
