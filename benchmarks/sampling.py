"""Timing inside one process: enough samples to be steady, few enough to be quick, and their median."""

import gc
import os
import time
from collections.abc import Awaitable, Callable
from statistics import median

CLOCK = "KEYTURN_BENCH_CLOCK"  # "process_time" measures the processor's seconds instead, where others are at work too
clock = time.process_time if os.environ.get(CLOCK) == "process_time" else time.perf_counter

SECONDS = 0.3
WALL_SECONDS = 1.0  # with what is not timed: preparation, and collections of a large heap
MOST = 40


async def median_seconds(once: Callable[[], Awaitable[float]]) -> float:
    """The median of what `once` measures, over samples that take about `SECONDS` in all (at least one)."""
    samples: list[float] = []
    end = time.monotonic() + WALL_SECONDS
    while not samples or (sum(samples) < SECONDS and len(samples) < MOST and time.monotonic() < end):
        gc.collect()  # what the last sample left behind is not this one's cost
        samples.append(await once())
    return median(samples)


async def seconds(work: Awaitable[object]) -> float:
    """How long this takes."""
    start = clock()
    await work
    return clock() - start
