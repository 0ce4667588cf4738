"""Everything that waits is approved but one, and what was not answered is asked for.

Prints:

    ['a2', 'a3']
    a9 is unknown
    Done. [1, 3]
"""

from pydantic_ai import Agent, DeferredToolRequests, ToolDenied
from scripted import call, model

agent = Agent(model([call("act", f"a{n}", n=n) for n in (1, 2, 3)], "Done."), output_type=[str, DeferredToolRequests])
ran = []


@agent.tool_plain(requires_approval=True)
def act(n: int) -> str:
    ran.append(n)
    return f"act {n}"


result = agent.run_sync("Go.")
requests = result.output
some = requests.build_results(approvals={"a1": True})
left = requests.remaining(some)
print([part.tool_call_id for part in left.approvals])
answers = requests.build_results(approvals={"a2": ToolDenied("not two")}, approve_all=True)
try:
    requests.build_results(approvals={"a9": True})
except ValueError:
    print("a9 is unknown")
result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers)
print(result.output, sorted(ran))
