"""An approval with other arguments: the tool runs with those.

Prints:

    It is built. [('make', 30)]
"""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved
from scripted import call, model

ran = []


def run(command: str, timeout: int = 0) -> str:
    ran.append((command, timeout))
    return "ok"


agent = Agent(
    model(call("run", "r1", command="make"), "It is built."),
    tools=[Tool(run, requires_approval=True)],
    output_type=[str, DeferredToolRequests],
)
result = agent.run_sync("Build it.")
answers = DeferredToolResults()
for waiting in result.output.approvals:
    changed = {**waiting.args_as_dict(), "timeout": 30}
    answers.approvals[waiting.tool_call_id] = ToolApproved(override_args=changed)
result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers)
print(result.output, ran)
