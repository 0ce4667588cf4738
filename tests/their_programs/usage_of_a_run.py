"""A run counts its requests, and several runs add up.

Prints:

    2
    3
"""

from pydantic_ai import Agent, RunUsage
from scripted import call, model

agent = Agent(model([call("look", "l1"), call("look", "l2")], "Seen.", "Hello."))


@agent.tool_plain
def look() -> str:
    return "ok"


total = RunUsage()
first = agent.run_sync("Look.", usage=total)
print(first.usage.requests)
agent.run_sync("Hi.", usage=total)
print(total.requests)
