"""LangGraph without its agent: a graph of two nodes written by hand, with `interrupt()` where a call is gated."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from ..script import PROMPT, Script
from . import langgraph_thread as thread


class State(TypedDict):
    """A conversation as plain values."""

    items: Annotated[list[Any], operator.add]


def after_model(state: State) -> str:
    return "tools" if state["items"][-1]["calls"] else END


class Driver:
    """One graph; a handle is its last answer and the thread it lives in."""

    def __init__(self, script: Script) -> None:
        self.script = script
        noop, gated = script.tools()
        self.tools = {"noop": noop, "gated": gated}
        self.saver = InMemorySaver()
        builder = StateGraph(State)
        builder.add_node("model", self.model)
        builder.add_node("tools", self.perform)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", after_model, ["tools", END])
        builder.add_edge("tools", "model")
        self.graph = builder.compile(checkpointer=self.saver if script.gates else None)

    async def model(self, state: State) -> dict[str, Any]:
        calls = [{"id": call.id, "tool": call.tool, "args": {"x": 1}} for call in self.script.reply()]
        return {"items": [{"calls": calls}]}

    async def perform(self, state: State) -> dict[str, Any]:
        calls = state["items"][-1]["calls"]
        gated = [call for call in calls if call["tool"] == "gated"]
        approved = interrupt(gated) if gated else []
        outputs = []
        for call in calls:
            if call["tool"] == "gated" and call["id"] not in approved:
                continue
            result = self.tools[call["tool"]](**call["args"])
            outputs.append({"id": call["id"], "text": result if isinstance(result, str) else await result})
        return {"items": outputs}

    async def start(self) -> tuple[Any, dict[str, Any]]:
        return await self.run({"items": [PROMPT]}, thread.new_thread())

    async def run(self, given: Any, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return await self.graph.ainvoke(given, config), config

    def pending(self, held: tuple[Any, dict[str, Any]]) -> int:
        return sum(len(one.value) for one in held[0].get("__interrupt__", ()))

    def save(self, held: tuple[Any, dict[str, Any]]) -> bytes:
        return thread.save(self.saver, held[1])

    async def load(self, data: bytes) -> tuple[dict[str, Any], list[Any]]:
        return thread.load(self.saver, data)

    async def approve(self, held: tuple[dict[str, Any], list[Any]]) -> tuple[Any, dict[str, Any]]:
        config, asked = held
        return await self.run(Command(resume=[call["id"] for calls in asked for call in calls]), config)
