"""One approval from end to end: a run pauses, is saved as text, loaded, approved and resumed to its answer."""

import asyncio
from typing import Any

from ..sampling import median_seconds, seconds
from ..script import Script, require
from ..subjects import Subject


async def cycles(driver: Any, n: int) -> None:
    """`n` conversations, one after the other."""
    for _ in range(n):
        held = await driver.start()
        require(driver.pending(held) == 1, "the run did not pause")
        held = await driver.approve(await driver.load(driver.save(held)))
        require(driver.pending(held) == 0, "the run did not finish")


def measure(subject: Subject, n: int) -> dict[str, float]:
    """Milliseconds a cycle."""
    driver = subject.driver()

    async def run(count: int) -> float:
        script = Script([["gated"], []] * count)
        elapsed = await seconds(cycles(driver(script), count))
        script.check(models=2 * count, tools=count)
        return elapsed

    async def main() -> float:
        await run(3)
        return await median_seconds(lambda: run(n))

    return {"ms": asyncio.run(main()) / n * 1e3}
