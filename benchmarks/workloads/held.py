"""Many calls of one reply wait together: the run pauses, is reloaded from text, all are approved, all run."""

import asyncio
from typing import Any

from ..sampling import median_seconds, seconds
from ..script import Script, require
from ..subjects import Subject


async def approve_all(driver: Any, n: int) -> None:
    """One run whose only reply before the answer holds `n` calls."""
    held = await driver.start()
    require(driver.pending(held) == n, f"{driver.pending(held)} calls wait instead of {n}")
    held = await driver.approve(await driver.load(driver.save(held)))
    require(driver.pending(held) == 0, "the run did not finish")


def measure(subject: Subject, n: int) -> dict[str, float]:
    """Milliseconds from the question to the answer."""
    driver = subject.driver()

    async def run(count: int) -> float:
        script = Script([["gated"] * count, []])
        elapsed = await seconds(approve_all(driver(script), count))
        script.check(models=2, tools=count)
        return elapsed

    async def main() -> float:
        await run(3)
        return await median_seconds(lambda: run(n))

    return {"ms": asyncio.run(main()) * 1e3}
