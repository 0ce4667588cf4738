"""The app of a soak: an agent pays once, by a call that requires an approval, and says in a file that it did.

The workers are `keyturn worker trials.soak_desk:app`, the servers `keyturn serve`. As a program this is one of those
who start runs and decide: `python -m trials.soak_desk NAME PER_SECOND [URL]`, with a URL as a client of that server.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from httpx2 import TransportError

from keyturn import Agent, App, KeyturnError, ToolContext, function_tool
from keyturn.client import AsyncClient
from keyturn.journal.rows import RunRow
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs

#: For how long a worker holds a run, in seconds.
LEASE = 5.0
#: Begins the error of a run that stopped as the store was found restored.
RESTORED = "StoreRestored"
#: For how long nothing is decided after a promotion, in seconds: longer than a call takes.
QUIET = 5.0
HERE = Path(os.environ["SOAK_FOLDER"])


def noted(file: str, line: str) -> None:
    """Add a line to a file that several processes write to."""
    end = os.open(HERE / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(end, f"{line}\n".encode())
    finally:
        os.close(end)


@function_tool(needs_approval=True)
async def pay(context: ToolContext[Any], to: str) -> str:
    """Pay, which takes a moment before it is done, and another one after."""
    await asyncio.sleep(random.uniform(0, 1.5))
    noted("paid", context.run_id or "")
    await asyncio.sleep(random.uniform(0, 1.5))
    return f"paid {to}"


def reply(items: Any) -> Any:
    return "done" if tool_outputs(items) else [function_call("pay", {"to": "ann"})]


agent: Agent[Any] = Agent("desk", model=ScriptedModel(reply), tools=[pay])
app = App([agent], os.environ["SOAK_JOURNAL"], worker=False, lease=LEASE, slots=20)


def quiet() -> bool:
    """Return whether a standby was just promoted: what ran in the last moments may have its effect only now."""
    mark = HERE / "quiet"
    return mark.exists() and time.time() - mark.stat().st_mtime < QUIET


def is_paid(run: str) -> bool:
    """Return whether a call had its effect; after a promotion its request may be open again."""
    file = HERE / "paid"
    return file.exists() and run in file.read_text().split()


async def stopped(desk: App) -> list[RunRow]:
    """Return the runs that a promotion stopped."""
    return [row for row in await desk.runs(state="failed", limit=1_000) if RESTORED in (row.error or "")]


async def decide(desk: App) -> int:
    """Decide what waits; of a call in doubt is said that it ran, so that it never runs again. Return how many."""
    if quiet():
        return 0
    for row in await stopped(desk):
        with suppress(KeyturnError):
            await desk.resume(row.run)
    waits = await desk.inbox.list(limit=100)
    for row in waits:
        with suppress(KeyturnError):  # another one was quicker, or the database is away
            if row.kind == "in_doubt":
                await desk.inbox.resolve(row, "ran", by="ann")
                noted("doubts", row.run)
            elif is_paid(row.run):
                await desk.inbox.reject(row, by="ann", message="it was paid before the promotion")
            else:
                await desk.inbox.approve(row, by="ann")
    return len(waits)


async def decide_by(client: AsyncClient) -> None:
    """Decide the same as a client of a server."""
    if quiet():
        return
    for row in await client.inbox.list(limit=100):
        with suppress(KeyturnError):
            if row.kind == "in_doubt":
                await client.inbox.resolve(row, "ran")
                noted("doubts", row.run)
            elif is_paid(row.run):
                await client.inbox.reject(row, message="it was paid before the promotion")
            else:
                await client.inbox.approve(row)


async def _work(per_second: float, start: Callable[[str], Awaitable[str]], decided: Callable[[], Any]) -> None:
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    number = 0
    while not leaving.is_set():
        with suppress(KeyturnError, OSError, TransportError):
            noted("started", await start(str(number)))
        number += 1
        with suppress(KeyturnError, OSError, TransportError):
            await decided()
        with suppress(TimeoutError):
            await asyncio.wait_for(leaving.wait(), 1 / per_second)


async def _here(name: str, per_second: float) -> None:
    async def start(number: str) -> str:
        return (await app.start("desk", f"{name} {number}", priority=random.choice(["interactive", "batch"]))).id

    async with app:
        await _work(per_second, start, lambda: decide(app))


async def _by(url: str, name: str, per_second: float) -> None:
    starts, decides = os.environ["SOAK_TOKENS"].split()
    async with AsyncClient(url, starts) as bot, AsyncClient(url, decides) as ada:

        async def start(number: str) -> str:
            once = f"{name}-{os.getpid()}-{number}"
            run = await bot.start("desk", f"{name} {number}", requester="ada", once=once)
            noted("served", run)
            return run

        await _work(per_second, start, lambda: decide_by(ada))


if __name__ == "__main__":
    _, NAME, RATE, *URL = sys.argv
    asyncio.run(_by(URL[0], NAME, float(RATE)) if URL else _here(NAME, float(RATE)))
