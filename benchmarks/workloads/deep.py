"""A deep agent: its first turn, its fiftieth with 30 files, and what a hundred paused ones hold in memory.

Each turn writes a file in memory and asks nobody; a paused one waits for its first write. Every library has its own
file tools, prompt and defaults, save what would need a network.
"""

import asyncio
import gc
from importlib import import_module
from itertools import pairwise
from typing import Any

from ..memory import rss_bytes
from ..sampling import clock, median_seconds, seconds
from ..script import require
from ..subjects import Subject

FILES = 30
LINES = 40
WARM = 5  # turns, and paused runs that are kept: what they freed would hide what the others take
OURS = "keyturn_deep"


class Writes:
    """What the model says: `turns` writes of one file after the other, then that it is done; and when it said it."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.said: list[float] = []

    def reply(self) -> tuple[str, str, str] | None:
        """The next call as id, path and content, or None for the last word."""
        turn = len(self.said)
        self.said.append(clock())
        if turn >= self.turns:
            return None
        return f"call_{turn}", f"/file{turn % FILES}.txt", f"turn {turn}: a line of a file\n" * LINES


async def paused(make: Any, n: int) -> float:
    """KiB of resident memory a paused run, each with an agent of its own."""
    held: list[Any] = []
    for _ in range(WARM):
        held.append(await make(Writes(1), {"write_file": True}).start())
    gc.collect()
    before = rss_bytes()
    for _ in range(n):
        held.append(await make(Writes(1), {"write_file": True}).start())
    gc.collect()
    require(all(waits for _, waits in held), "a run did not pause")
    return (rss_bytes() - before) / n / 1024


async def turns(make: Any, n: int) -> float:
    """Milliseconds from the model's one reply to its next, late in a run of `n` turns: the median of the last five."""
    writes = Writes(n)
    done = make(writes, {})
    await done.start()
    require(len(writes.said) == n + 1, f"{len(writes.said)} replies, not {n + 1}")
    require(done.files() == min(n, FILES), f"{done.files()} files")
    gaps = [after - before for before, after in pairwise(writes.said)]
    return sorted(gaps[-5:])[2] * 1e3


async def first(make: Any) -> float:
    """Milliseconds from nothing to the end of a run of one turn, making the agent included."""

    async def once() -> float:
        return await seconds(make(Writes(1), {}).start())

    async def whole() -> float:
        start = clock()
        await once()
        return clock() - start

    await whole()
    return await median_seconds(whole) * 1e3


def measure(subject: Subject, n: int, kind: int) -> dict[str, float]:
    """One figure: `kind` 0 is the first turn, 1 the nth, 2 the memory of n that wait."""
    make = subject.driver() if subject.deep else import_module(f"benchmarks.subjects.{OURS}").Driver
    if kind == 2:
        return {"kib": asyncio.run(paused(make, n))}
    return {"ms": asyncio.run(turns(make, n) if kind else first(make))}
