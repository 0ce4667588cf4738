"""The app that these files deploy: replace it with yours. The journal's URL comes from the environment."""

import os

from keyturn import Agent, App, function_tool


@function_tool(needs_approval=True)
def refund(order: str, cents: int) -> str:
    """Refund an order."""
    return f"refunded {cents} cents of order {order}"


app = App(
    [Agent("desk", instructions="Handle refunds.", model=os.environ.get("DESK_MODEL", "openai/gpt-5"), tools=[refund])],
    os.environ.get("JOURNAL_URL", "sqlite:///desk.db"),
)
