"""Reach a graph: read what a thread is paused at, and resume it.

Everything that LangGraph itself is asked is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

try:
    from langgraph.types import Command
except ImportError as error:
    raise ImportError("the mirror needs the package langgraph: pip install 'keyturn[langgraph]'") from error

from ..core.errors import Conflict, UserError
from .shapes import Shape, shape_of

# LangGraph ignores an answer to an interrupt that is not open, unless it is asked to refuse it.
_STRICT = "__pregel_strict_resume"


class Graph(Protocol):
    """Describes a compiled graph."""

    name: Any
    checkpointer: Any

    def get_state(self, config: Any, /) -> Any:
        """Return the state of a thread."""
        ...

    async def aget_state(self, config: Any, /) -> Any:
        """Return the state of a thread."""
        ...

    def invoke(self, input: Any, config: Any, /) -> Any:
        """Run a thread until it ends or pauses."""
        ...

    async def ainvoke(self, input: Any, config: Any, /) -> Any:
        """Run a thread until it ends or pauses."""
        ...


class PausedThread(NamedTuple):
    """Holds the open interrupts of a thread, in their order; equal where the thread has not changed."""

    thread: str
    checkpoint: str
    interrupts: tuple[tuple[str, Shape], ...]


class Program:
    """Asks a graph, by its asynchronous methods where its checkpointer has them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._blocks = False

    @property
    def name(self) -> str:
        """Return the name of the graph."""
        return str(self._graph.name or "LangGraph")

    async def paused(self, thread: str | Mapping[str, Any]) -> PausedThread | None:
        """Return what a thread is paused at; None where it has no open interrupt.

        Raises `Conflict` where it cannot be resumed: a task is at work or was lost with its process, or failed.
        It would run again, where its interrupt was answered with that answer, whatever it is given now.
        """
        snapshot = await self._state(config_of(thread))
        asked = tuple((each.id, shape_of(each.value, each.response_schema)) for each in snapshot.interrupts)
        if not asked:
            return None
        for task in snapshot.tasks:
            if task.error is not None:
                raise Conflict(
                    f"thread {name_of(thread)!r} failed in {task.name!r}, which a resume runs again: do so yourself"
                )
            if not task.interrupts and task.result is None:
                raise Conflict(f"thread {name_of(thread)!r} is at work in {task.name!r}, or its process died there")
        return PausedThread(name_of(thread), str(snapshot.config["configurable"].get("checkpoint_id", "")), asked)

    async def resume(self, thread: str | Mapping[str, Any], answers: Mapping[str, Any]) -> Any:
        """Run a thread on with an answer to each open interrupt."""
        config = config_of(thread)
        config["configurable"] = {**config["configurable"], _STRICT: True}
        command: Any = Command(resume=dict(answers))
        if self._blocks:
            return await asyncio.to_thread(self._graph.invoke, command, config)
        return await self._graph.ainvoke(command, config)

    async def threads(self) -> list[str]:
        """Return the threads that the checkpointer knows."""
        saver, found = self._graph.checkpointer, dict[str, None]()
        try:
            async for each in saver.alist(None):
                found[each.config["configurable"]["thread_id"]] = None
        except NotImplementedError:
            listed = await asyncio.to_thread(lambda: list(saver.list(None)))
            found |= dict.fromkeys(each.config["configurable"]["thread_id"] for each in listed)
        return list(found)

    async def _state(self, config: dict[str, Any]) -> Any:
        if not self._blocks:
            try:
                return await self._graph.aget_state(config)
            except NotImplementedError:  # the checkpointer of a program without a loop
                self._blocks = True
        return await asyncio.to_thread(self._graph.get_state, config)


def config_of(thread: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a thread.

    >>> config_of("order-7")
    {'configurable': {'thread_id': 'order-7'}}
    """
    if isinstance(thread, str):
        return {"configurable": {"thread_id": thread}}
    given: Any = thread.get("configurable")
    if not isinstance(given, Mapping) or "thread_id" not in given or "checkpoint_id" in given:
        raise UserError("a thread is its id, or a configuration with a thread_id and without a checkpoint_id")
    return {**thread, "configurable": dict(cast("Mapping[str, Any]", given))}


def name_of(thread: str | Mapping[str, Any]) -> str:
    """Return the id of a thread."""
    return str(config_of(thread)["configurable"]["thread_id"])
