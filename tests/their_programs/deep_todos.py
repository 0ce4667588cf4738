"""A deep agent plans, and the program reads the plan.

Prints:

    Planned.
    completed Read Reading
    in_progress Write Writing
"""

import asyncio

from pydantic_deep import DeepAgentDeps, create_deep_agent
from scripted import call, model

TODOS = [
    {"content": "Read", "status": "completed", "active_form": "Reading"},
    {"content": "Write", "status": "in_progress", "active_form": "Writing"},
]


async def main() -> None:
    agent = create_deep_agent(model=model(call("write_todos", todos=TODOS), "Planned."))
    deps = DeepAgentDeps()
    result = await agent.run("Plan it.", deps=deps)
    print(result.output)
    for todo in deps.todos:
        print(todo.status, todo.content, todo.active_form)


asyncio.run(main())
