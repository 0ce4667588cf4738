"""A caller that gives up: it cancels the drive that it awaits, as a time limit or a closed request does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from .world import World

# How many turns of the loop it waits, or how many seconds of made time.
TURNS = (0, 0, 1, 3, 5, 8, 13, 21, 34, 55)
SECONDS = (0.01, 0.5, 5.0, 30.0)


class GaveUp(Exception):
    """The caller of a drive cancelled it."""


async def impatient(drive: Coroutine[Any, Any, None], world: World) -> None:
    """Await a drive, and in one case of four cancel it before its end."""
    dice = world.patience_dice
    if not world.plan.knobs.patience or world.calm or dice.random() >= 0.25:
        await drive
        return
    task = asyncio.ensure_future(drive)
    try:
        await _waited(task, dice.choice(TURNS), dice.choice((0.0, *SECONDS)))
    finally:
        gave_up = task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        if world.closed or not gave_up:
            raise
        world.count("drives cancelled")
        world.note("the caller gives up")
        raise GaveUp("the caller gave up") from None


async def _waited(task: asyncio.Task[None], turns: int, seconds: float) -> None:
    if seconds:
        await asyncio.wait([task], timeout=seconds)
    for _ in range(turns):
        if task.done():
            return
        await asyncio.sleep(0)
