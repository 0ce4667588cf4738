"""The cost of a turn as the run grows: the model calls one ungated tool in every turn, then answers."""

import asyncio

from ..sampling import median_seconds, seconds
from ..script import Script
from ..subjects import Subject


def measure(subject: Subject, n: int, sync: int = 0) -> dict[str, float]:
    """Microseconds a turn, in runs of `n` turns."""
    driver = subject.driver()

    async def run(turns: int) -> float:
        script = Script([["noop"]] * turns + [[]], sync_tool=bool(sync))
        elapsed = await seconds(driver(script).start())
        script.check(models=turns + 1, tools=turns)
        return elapsed

    async def main() -> float:
        await run(3)
        return await median_seconds(lambda: run(n))

    return {"us": asyncio.run(main()) / n * 1e6}
