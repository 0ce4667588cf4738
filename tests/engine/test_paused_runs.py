"""A run that waits for people takes little memory: counted as it is allocated, which does not depend on the machine."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from benchmarks.script import Script
from benchmarks.subjects.keyturn import Driver

MOST_BYTES = 8 * 1_024
MANY = 16


@pytest.mark.usefixtures("garbage_of_its_own")
async def test_a_run_that_waits_takes_at_most_eight_kibibytes() -> None:
    driver = Driver(Script([["gated"]] * (2 * MANY + 3)))
    held = [await driver.start() for _ in range(3)]  # makes what is made once
    taken: list[int] = []
    for _ in range(2):  # a table that all runs share may grow in one of them, for many more than these
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            held += await asyncio.gather(*[driver.start() for _ in range(MANY)])
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        taken.append(after - before)
    assert min(taken) / MANY < MOST_BYTES
    assert all(len(one.interruptions) == 1 for one in held)
