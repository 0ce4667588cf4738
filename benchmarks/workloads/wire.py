"""Text on its way from a provider's server to a person: one reply of `n` deltas over HTTP on this machine.

What is measured is the time of the processor that this process takes, beside what the provider's SDK takes alone for
the same bytes. The server is another process.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from ..sampling import median_seconds
from ..script import Script, require, words
from ..sdks import ALONE
from ..serving import served
from ..subjects import Subject

APIS = ("responses", "chat", "anthropic", "google")

Stream = Callable[[str, str], Awaitable[list[str]]]


def measure(subject: Subject, n: int, api: int = 0) -> dict[str, float]:
    """Microseconds a delta; nothing for a subject that does not speak this format here."""
    name, driver = APIS[api], subject.driver()
    if name not in getattr(driver, "APIS", ()):
        return {}

    async def cost(stream: Stream, url: str) -> float:
        async def once() -> float:
            start = time.process_time()
            deltas = await stream(name, url)
            elapsed = time.process_time() - start
            require(deltas == words(n), f"{len(deltas)} deltas arrived instead of {n}, or others")
            return elapsed

        await once()  # connections, types and plans that are made once
        return await median_seconds(once) / n * 1e6

    async def main(url: str) -> dict[str, float]:
        figures = {"us": await cost(driver(Script([])).over_wire, url)}
        if driver.SDK:
            figures["sdk_us"] = await cost(ALONE[name], url)
        return figures

    with served(name, n) as url:
        return asyncio.run(main(url))
