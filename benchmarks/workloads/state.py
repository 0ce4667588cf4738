"""A long run at rest: `n` done calls and one that waits, saved as text and loaded."""

import asyncio
import time
from typing import Any

from ..sampling import median_seconds, seconds
from ..script import Script, require
from ..subjects import Subject
from .cycle import cycles


def measure(subject: Subject, n: int) -> dict[str, float]:
    """Milliseconds to save and to load, and the size in kB."""
    driver = subject.driver()

    async def run() -> dict[str, float]:
        await cycles(driver(Script([["gated"], []] * 3)), 3)
        return await rest(driver, n)

    return asyncio.run(run())


async def rest(make: Any, n: int) -> dict[str, float]:
    """Build the run once, save and load it several times, and see that the last copy still resumes."""
    script = Script([["noop"]] * n + [["gated"], []])
    driver = make(script)
    held = await driver.start()
    require(driver.pending(held) == 1, "the run did not pause")
    text, loaded = "", None

    async def save() -> float:
        nonlocal text
        start = time.perf_counter()
        text = driver.save(held)
        return time.perf_counter() - start

    async def load() -> float:
        nonlocal loaded
        task = asyncio.ensure_future(driver.load(text))
        elapsed = await seconds(task)
        loaded = task.result()
        return elapsed

    first = await save()  # a subject may keep what it encoded: the first time it cannot
    saved, read = await median_seconds(save), await median_seconds(load)
    require(driver.pending(await driver.approve(loaded)) == 0, "the loaded run did not finish")
    script.check(models=n + 2, tools=n + 1)
    return {"save_ms": saved * 1e3, "first_save_ms": first * 1e3, "load_ms": read * 1e3, "kb": len(text) / 1e3}
