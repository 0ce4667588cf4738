"""A tool that raises: what the program sees.

Prints:

    raised division by zero

Prints with keyturn, on purpose:

    It cannot be done.
"""

from pydantic_ai import Agent
from scripted import call, model

agent = Agent(model(call("divide", by=0), "It cannot be done."))


@agent.tool_plain
def divide(by: int) -> float:
    return 1 / by


try:
    print(agent.run_sync("Divide.").output)
except ZeroDivisionError as error:
    print("raised", error)
