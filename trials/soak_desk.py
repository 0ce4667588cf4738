"""The app of a soak: an agent pays once, by a call that requires an approval, and says in a file that it did.

The workers are `keyturn worker trials.soak_desk:app`. As a program this is one of those who start runs and decide, as a
server does: `python -m trials.soak_desk NAME PER_SECOND`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from keyturn import Agent, App, KeyturnError, ToolContext, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs

#: For how long a worker holds a run, in seconds.
LEASE = 5.0
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


async def decide(desk: App) -> int:
    """Decide what waits; of a call in doubt is said that it ran, so that it never runs again. Return how many."""
    waits = await desk.inbox.list(limit=100)
    for row in waits:
        with suppress(KeyturnError):  # another one was quicker, or the database is away
            if row.kind == "in_doubt":
                await desk.inbox.resolve(row, "ran", by="ann")
                noted("doubts", row.run)
            else:
                await desk.inbox.approve(row, by="ann")
    return len(waits)


async def _work(name: str, per_second: float) -> None:
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    number = 0
    async with app:
        while not leaving.is_set():
            with suppress(KeyturnError):
                run = await app.start("desk", f"{name} {number}", priority=random.choice(["interactive", "batch"]))
                noted("started", run.id)
            number += 1
            with suppress(KeyturnError):
                await decide(app)
            with suppress(TimeoutError):
                await asyncio.wait_for(leaving.wait(), 1 / per_second)


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1], float(sys.argv[2])))
