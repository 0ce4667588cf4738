"""LangGraph programs for the tests, and the person who decides. No test is here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from keyturn import App, ExternalAgent
from keyturn.journal.rows import RequestRow
from keyturn.testing import check
from tests.waiting import until

RAN: list[tuple[str, int]] = []
ALL = ["approve", "edit", "reject", "respond"]


@tool
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    RAN.append((to, amount))
    return f"paid {amount} to {to}"


class Scripted(BaseChatModel):
    """Makes its calls, and is done once they have results."""

    says: list[AIMessage]

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        over = any(message.type == "tool" for message in messages)
        return ChatResult(generations=[ChatGeneration(message=self.says[over])])

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        """Return itself: what it says is known."""
        return self

    @property
    def _llm_type(self) -> str:
        return "scripted"


def call(number: int, to: str, amount: int) -> ToolCall:
    return {"name": "pay", "args": {"to": to, "amount": amount}, "id": f"c{number}", "type": "tool_call"}


def agent(
    saver: Any, calls: list[ToolCall], mode: str = "batched", allowed: list[str] = ALL, tools: Any = (pay,)
) -> Any:
    """Make an agent that makes these calls in one reply, and is done then."""
    gate = HumanInTheLoopMiddleware({"pay": {"allowed_decisions": allowed}}, interrupt_mode=mode)  # pyright: ignore[reportArgumentType]  # as users write them
    model = Scripted(says=[AIMessage(content="", tool_calls=calls), AIMessage(content="Done.")])
    return create_agent(model, [*tools], middleware=[gate], checkpointer=saver, name="desk")


def refunding(ran: list[dict[str, Any]], arguments: dict[str, Any]) -> Any:
    """Make an agent that refunds once, with these arguments."""

    @tool
    def refund(order: str, amount: int) -> str:
        """Refund an order."""
        ran.append({"order": order, "amount": amount})
        return "refunded"

    gate = HumanInTheLoopMiddleware({"refund": {"allowed_decisions": ALL}})  # pyright: ignore[reportArgumentType]  # as users write them
    asked: ToolCall = {"name": "refund", "args": arguments, "id": "c1", "type": "tool_call"}
    model = Scripted(says=[AIMessage(content="", tool_calls=[asked]), AIMessage(content="Done.")])
    return create_agent(model, [refund], middleware=[gate], checkpointer=InMemorySaver(), name="desk")


def of(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


GO = {"messages": [{"role": "user", "content": "Go."}]}


class Person:
    """Decides what is pending."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def pending(self, count: int = 1) -> list[RequestRow]:
        """Wait until so many requests are pending, and return them by their arguments."""

        async def found() -> list[RequestRow] | None:
            rows = list(await self.app.inbox.list())
            return rows if len(rows) == count else None

        return sorted(await until(found), key=lambda row: str(row.params))

    async def approve(self, count: int = 1) -> None:
        """Approve so many that are pending."""
        for row in await self.pending(count):
            await self.app.inbox.approve(row, by="ada")


@asynccontextmanager
async def desk(journal: str = "memory://", **settings: Any) -> AsyncGenerator[Person]:
    """Keep an inbox, and see that its journal checks."""
    RAN.clear()
    async with App([ExternalAgent()], journal, **settings) as app:
        yield Person(app)
        assert (await check(app.journal)).ok


async def resumed(resume: Callable[[], Any]) -> Any:
    """Resume once what was decided has been screened again."""
    from keyturn.gating import CallWaiting

    async def done() -> Any:
        try:
            return (await resume(),)
        except CallWaiting:
            return None

    return (await until(done))[0]
