"""Many people are asked: `n` runs start together, all pause, and what each of them then holds in memory.

Started together, as on a server: what a run needs only while it is on its way counts where the heap keeps it.
"""

import asyncio
import gc
from typing import Any

from ..memory import rss_bytes
from ..script import Script, require
from ..subjects import Subject

WARM = 20  # kept: memory that they freed would hide what the others take


async def main(make: Any, n: int, together: bool) -> float:
    """KiB of resident memory a paused run."""
    script = Script([["gated"]] * (WARM + n))
    driver = make(script)
    held = [await driver.start() for _ in range(WARM)]
    gc.collect()
    before = rss_bytes()
    if together:
        held += await asyncio.gather(*[driver.start() for _ in range(n)])
    else:
        held += [await driver.start() for _ in range(n)]
    gc.collect()
    grown = rss_bytes() - before
    require(all(driver.pending(one) == 1 for one in held), "a run did not pause")
    script.check(models=WARM + n, tools=0)
    return grown / n / 1024


def measure(subject: Subject, n: int, together: int = 1) -> dict[str, float]:
    """KiB a run."""
    return {"kib": asyncio.run(main(subject.driver(), n, bool(together)))}
