"""A tool's result has a value for the model, and more that is not for it.

Prints:

    I see it. {"ok": true}
"""

from pydantic_ai import Agent, ToolReturn
from scripted import call, model

agent = Agent(model(call("shot"), "I see it."))


@agent.tool_plain
def shot() -> ToolReturn:
    return ToolReturn(return_value={"ok": True}, metadata={"took": 3})


result = agent.run_sync("Look.")
parts = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
print(result.output, str(parts[0].content).replace("'", '"').replace("True", "true"))
