"""A tool tells its model to try again.

Prints:

    Number 7.
    tool-return find nobody is called 'jon'
    tool-return find 7
"""

from pydantic_ai import Agent, ModelRetry
from scripted import call, model

steps = model(call("find", "f1", name="jon"), call("find", "f2", name="john"), "Number 7.")
agent = Agent(steps)


@agent.tool_plain
def find(name: str) -> int:
    if name != "john":
        raise ModelRetry(f"nobody is called {name!r}")
    return 7


result = agent.run_sync("Find John.")
print(result.output)
for message in result.all_messages():
    for part in message.parts:
        if part.part_kind == "retry-prompt":
            print(part.part_kind, part.tool_name, part.content if isinstance(part.content, str) else "arguments")
        elif part.part_kind == "tool-return":
            print(part.part_kind, part.tool_name, part.content)
