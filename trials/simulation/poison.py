"""Callbacks that raise what is no ordinary exception: nothing of that may end a process, or let a call run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from keyturn import AgentHooks
from keyturn.core.policy import CallView

from .loop import PROCESS, Interrupt


class TooDeep(RecursionError):
    """Endless recursion: an ordinary exception, of which whoever drives the run hears."""


_RAISED: tuple[Callable[[], BaseException], ...] = (
    lambda: SystemExit(2),
    asyncio.CancelledError,
    GeneratorExit,
    lambda: BaseExceptionGroup("several", [SystemExit(2), ValueError("one")]),
    Interrupt,
    TooDeep,
    StopIteration,
)


def poison(where: str) -> None:
    """Raise one of them, where this seed has it so."""
    world: Any = PROCESS.get().here["world"]
    if where in world.plan.kinds.poisoned and not world.calm and world.poison_dice.random() < 0.25:
        world.count(f"poison: {where}")
        world.note(f"{where} raises what is no ordinary exception")
        raise world.poison_dice.choice(_RAISED)()


def is_ordinary(error: Exception) -> bool:
    """Whether it is what was raised itself: Python makes a `RuntimeError` of what no coroutine may raise."""
    return isinstance(error, TooDeep) or str(error) == "coroutine raised StopIteration"


def doubts(call: CallView, _context: Any) -> bool:
    """The condition of a rule: it never holds, and may not be able to say so."""
    poison("when")
    PROCESS.get().here["world"].witness.cleared.add(("when", call.call_id, call.params["n"]))
    return False


class Hooks(AgentHooks[Any]):
    """Hooks of an agent."""

    async def on_start(self, context: Any, agent: Any) -> None:
        poison("hook")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        poison("hook")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        poison("hook")
