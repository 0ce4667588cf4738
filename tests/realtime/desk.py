"""What many tests of sessions try things on: a tool that asks, one that does not, and what of them ran."""

from __future__ import annotations

from typing import Any

from keyturn import function_tool
from keyturn.realtime import RealtimeAgent

#: What ran, in its order; it is empty when a test begins.
ran: list[Any] = []


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    ran.append(order)
    return f"refunded {order}"


@function_tool
def weather() -> str:
    """Tell the weather."""
    ran.append("weather")
    return "sunny"


def support(*tools: Any, **more: Any) -> RealtimeAgent[Any]:
    """An agent with these tools, else with both."""
    return RealtimeAgent("Support", instructions="Help.", tools=[*(tools or (refund, weather))], **more)
