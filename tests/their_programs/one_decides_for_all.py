"""A loop that asks again until nothing waits.

Prints:

    All done. 3 [1, 3]
"""

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from scripted import call, model

agent = Agent(
    model(call("step", "s1", n=1), [call("step", "s2", n=2), call("look", "k1")], call("step", "s3", n=3), "All done."),
    deps_type=list,
    output_type=[str, DeferredToolRequests],
)


@agent.tool(requires_approval=True)
async def step(ctx: RunContext[list], n: int) -> str:
    ctx.deps.append(n)
    return f"step {n}"


@agent.tool_plain
def look() -> str:
    return "seen"


done: list[int] = []
result = agent.run_sync("Go.", deps=done)
rounds = 0
while isinstance(result.output, DeferredToolRequests):
    rounds += 1
    answers = DeferredToolResults(
        approvals={part.tool_call_id: part.args_as_dict()["n"] != 2 for part in result.output.approvals}
    )
    result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers, deps=done)
print(result.output, rounds, done)
