"""A LangGraph program pauses with `interrupt`; a person decides in the Keyturn inbox, and the thread resumes once.

Prints:

    paused: refund {'order': 'A1', 'amount': 500}
    refunded 50 for A1
    the second mirror found nothing to resume: None
"""

import asyncio
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from keyturn import App, ExternalAgent
from keyturn.langgraph import Mirror


class Order(TypedDict):
    order: str
    amount: int
    done: str


def refund(state: Order) -> Any:
    asked = {
        "action_request": {"action": "refund", "args": {"order": state["order"], "amount": state["amount"]}},
        "config": {"allow_accept": True, "allow_edit": True, "allow_respond": False, "allow_ignore": True},
    }
    [answer] = interrupt([asked])
    if answer["type"] == "ignore":
        return {"done": "nothing was refunded"}
    approved = answer["args"]["args"]  # what was approved, and not what the node computed before it paused
    return {"done": f"refunded {approved['amount']} for {approved['order']}"}


async def main() -> None:
    graph = StateGraph(Order).add_node("refund", refund).add_edge(START, "refund").compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "order-A1"}}
    start: Any = {"order": "A1", "amount": 500}
    async with App([ExternalAgent()], "memory://") as app:
        mirror, other = Mirror(graph, app), Mirror(graph, app)
        await graph.ainvoke(start, thread)
        [asked] = await mirror.ask("order-A1")
        await app.wait(asked.id)

        [request] = await app.inbox.list()
        print("paused:", request.tool, request.params)
        await app.inbox.approve(request, by="ada", edit={"order": "A1", "amount": 50})
        await app.asks.wait(asked.id, 30)

        print((await mirror.resume("order-A1"))["done"])
        print("the second mirror found nothing to resume:", await other.resume("order-A1"))


if __name__ == "__main__":
    asyncio.run(main())
