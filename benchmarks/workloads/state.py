"""A long run at rest: `n` done calls and one that waits, saved as text and loaded.

Each save that counts is the first of its run, as at a pause: a subject may keep what it has encoded, and the second
save would measure that. So the run is built anew for each sample, outside the clock.
"""

import asyncio
from typing import Any

from ..sampling import clock, median_seconds, seconds
from ..script import Script, require
from ..subjects import Subject
from .cycle import cycles


class Rest:
    """One run at rest, and what was last made of it."""

    def __init__(self, make: Any, n: int) -> None:
        self.make = make
        self.n = n
        self.text: str | bytes = ""

    async def build(self) -> None:
        """A new run that has made its calls and waits."""
        self.script = Script([["noop"]] * self.n + [["gated"], []])
        self.driver = self.make(self.script)
        self.held = await self.driver.start()
        require(self.driver.pending(self.held) == 1, "the run did not pause")

    async def first_save(self) -> float:
        """Seconds to save a run that was never saved."""
        await self.build()
        return await self.save()

    async def save(self) -> float:
        """Seconds to save the run at hand."""
        start = clock()
        self.text = self.driver.save(self.held)
        return clock() - start

    async def load(self) -> float:
        """Seconds to load the text."""
        task = asyncio.ensure_future(self.driver.load(self.text))
        elapsed = await seconds(task)
        self.loaded = task.result()
        return elapsed

    async def finish(self) -> None:
        """The loaded run goes on to its end, and only now was all work done, once."""
        require(self.driver.pending(await self.driver.approve(self.loaded)) == 0, "the loaded run did not finish")
        self.script.check(models=self.n + 2, tools=self.n + 1)


async def main(make: Any, n: int) -> dict[str, float]:
    """Save, save again, load, go on."""
    await cycles(make(Script([["gated"], []] * 3)), 3)
    rest = Rest(make, n)
    saved = await median_seconds(rest.first_save)
    again = await median_seconds(rest.save)
    loaded = await median_seconds(rest.load)
    await rest.finish()
    kb = len(rest.text) / 1e3
    return {"save_ms": saved * 1e3, "save_again_ms": again * 1e3, "load_ms": loaded * 1e3, "kb": kb}


def measure(subject: Subject, n: int) -> dict[str, float]:
    """Milliseconds to save and to load, and the size in kB."""
    return asyncio.run(main(subject.driver(), n))
