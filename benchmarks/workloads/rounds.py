"""A long conversation of approvals: one run that asks `n` times in sequence, saved as text and loaded in each round."""

import asyncio
from typing import Any

from ..sampling import seconds
from ..script import Script, require
from ..subjects import Subject


async def rounds(driver: Any, n: int) -> int:
    """One run with `n` pauses; returns the bytes that were saved in all."""
    written = 0
    held = await driver.start()
    for _ in range(n):
        require(driver.pending(held) == 1, "the run did not pause")
        text = driver.save(held)
        written += len(text)
        held = await driver.approve(await driver.load(text))
    require(driver.pending(held) == 0, "the run did not finish")
    return written


def measure(subject: Subject, n: int) -> dict[str, float]:
    """Milliseconds for all rounds, and the megabytes of text they wrote."""
    driver = subject.driver()

    async def run(count: int) -> tuple[float, int]:
        script = Script([["gated"]] * count + [[]])
        task = asyncio.ensure_future(rounds(driver(script), count))
        elapsed = await seconds(task)
        script.check(models=count + 1, tools=count)
        return elapsed, task.result()

    async def main() -> tuple[float, int]:
        await run(3)
        return await run(n)

    elapsed, written = asyncio.run(main())
    return {"ms": elapsed * 1e3, "mb": written / 1e6}
