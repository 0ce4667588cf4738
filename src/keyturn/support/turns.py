"""Do much, a few at a time: between them others of the event loop have their turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

#: How many calls are read, decided or begun before others of the event loop have their turn.
AT_A_TIME = 32
T = TypeVar("T")


async def in_turns(many: Iterable[T]) -> AsyncIterator[T]:
    """Yield each of many, with a pause after every few."""
    for place, each in enumerate(many, 1):
        yield each
        if place % AT_A_TIME == 0:
            await asyncio.sleep(0)
