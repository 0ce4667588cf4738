"""Text on its way to a person: one reply of `n` deltas, from the model to the consumer of the stream."""

import asyncio

from ..sampling import median_seconds, seconds
from ..script import Script, require
from ..subjects import Subject


def measure(subject: Subject, n: int, suspend: int = 0) -> dict[str, float]:
    """Microseconds a delta; nothing for a subject that streams no text."""
    driver = subject.driver()
    if not hasattr(driver, "stream"):
        return {}

    async def run(count: int) -> float:
        script = Script([[]], deltas=count, suspend=bool(suspend))
        task = asyncio.ensure_future(driver(script).stream())
        elapsed = await seconds(task)
        require(task.result() == script.deltas, f"{len(task.result())} deltas arrived instead of {count}, or others")
        script.check(models=1, tools=0)
        return elapsed

    async def main() -> float:
        await run(20)
        return await median_seconds(lambda: run(n))

    return {"us": asyncio.run(main()) / n * 1e6}
