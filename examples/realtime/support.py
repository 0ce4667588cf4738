"""The agent and its tools, and what it says where no key is set: a conversation that follows what was said last."""

from typing import Any

from keyturn import function_tool
from keyturn.realtime import RealtimeAgent
from keyturn.testing.loopback.realtime import Call, RealtimeLine, Say

ORDERS = {"A-1042": {"what": "a blue kettle", "cents": 4900, "state": "delivered on Monday"}}
WORD_MS = 180  # how long the tone of each word is, in place of a voice
HEARD = ("Where is my order A-1042?", "It leaks. Please refund it.", "Thank you.")  # in place of understanding you


@function_tool
def look_up_order(order: str) -> str:
    """Look up an order by its number."""
    found = ORDERS.get(order)
    return "no such order" if found is None else f"{order}: {found['what']}, {found['state']}"


@function_tool(needs_approval=True)
def refund(order: str, cents: int, reason: str) -> str:
    """Pay the price of an order back."""
    return f"refunded {cents / 100:.2f} euros for {order}"


SUPPORT = RealtimeAgent[None](
    "support",
    instructions="You help customers of a shop, in few words. Look an order up before you speak of it. A refund waits "
    "for a colleague: go on talking meanwhile, and tell the outcome once you have it.",
    tools=[look_up_order, refund],
)


def scripted(line: RealtimeLine) -> Any:
    """Return the next thing to say or to call, by the last item of the conversation."""
    last = line.items[-1] if line.items else {}
    if last.get("type") == "function_call_output":
        return Say(_outcome(str(last["output"])), WORD_MS)
    said = " ".join(str(part.get("text") or part.get("transcript") or "") for part in last.get("content", ()))
    if last.get("role") == "system":
        return Say("A colleague has to agree to that, I have just asked. Can I help with anything else?", WORD_MS)
    if "refund" in said.lower() or "money back" in said.lower():
        call = {"order": "A-1042", "cents": 4900, "reason": said}
        return [Say("I am sorry to hear that.", WORD_MS), Call("refund", call)]
    if "a-1042" in said.lower():
        return Call("look_up_order", {"order": "A-1042"})
    return Say("I can look up your order A-1042, or refund it.", WORD_MS)


def _outcome(output: str) -> str:
    if output.startswith("refunded"):
        return f"Good news: we have {output}."
    return f"I looked: {output}." if output.startswith("A-") else f"I am afraid that was not agreed to: {output}"
