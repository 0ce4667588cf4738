"""The app of a load: its runs ask once. As a program this is one of those who start runs, decide and watch.

The workers are `keyturn worker trials.load_desk:app`; `python -m trials.load_desk RUNS APPROVERS STREAMS` writes down
the seconds that each step took. Each approver has one run at a time: starts it, reads a page of the inbox and the
request, approves, and waits for the end. A stream watches a run that waits for a decision.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from keyturn import Agent, App, function_tool
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ModelRequest, ScriptedModel, function_call, tool_outputs

from .load import BEGUN, GO, TOOK

HERE = Path(os.environ["LOAD_FOLDER"])


@function_tool(needs_approval=True)
async def act(stamp: str) -> str:
    """Write when it began; the clock is the machine's, so that two processes can compare."""
    (HERE / stamp).write_text(str(time.monotonic()), encoding="ascii")
    return "acted"


def reply(request: ModelRequest) -> Any:
    """Call the tool once, with the name of the file that the run was given."""
    done, items = tool_outputs(request), cast("list[Any]", request.input)
    return "done" if done else [function_call("act", {"stamp": items[0]["content"]})]


app = App([Agent("load", model=ScriptedModel(reply), tools=[act])], os.environ["LOAD_JOURNAL"], worker=False)


@dataclass
class Took:
    """The seconds of each step, one number for each cycle."""

    start: list[float] = field(default_factory=list[float])
    asked: list[float] = field(default_factory=list[float])
    page: list[float] = field(default_factory=list[float])
    approve: list[float] = field(default_factory=list[float])
    tool: list[float] = field(default_factory=list[float])
    end: list[float] = field(default_factory=list[float])
    seconds: float = 0.0


async def cycle(took: Took, stamp: str) -> None:
    """Start a run, approve its call, and wait for its end."""
    times = [time.monotonic()]
    run = await app.start("load", stamp)
    times.append(time.monotonic())
    assert (await run.wait(120)).status == "waiting"
    times.append(time.monotonic())
    await app.inbox.list(limit=50)
    times.append(time.monotonic())
    [request] = await app.inbox.list(Query(run=run.id, state="open"))
    deciding = time.monotonic()
    await app.inbox.approve(request, by="ann")
    approved = time.monotonic()
    assert (await run.result(120)).final_output == "done"
    for name, since, until in zip(("start", "asked", "page"), times, times[1:], strict=False):
        getattr(took, name).append(until - since)
    took.approve.append(approved - deciding)
    took.end.append(time.monotonic() - deciding)
    mark = HERE / stamp
    took.tool.append(float(mark.read_text(encoding="ascii")) - deciding)
    mark.unlink()


async def watched() -> asyncio.Task[None]:
    """Start a run that waits for a decision, and watch it."""
    run = await app.start("load", "watched")
    await run.wait(120)

    async def watching() -> None:
        async for _ in run.stream():
            pass

    return asyncio.ensure_future(watching())


async def drive(runs: int, approvers: int, streams: int) -> Took:
    """Let so many approvers have so many cycles together, once the file `go` is there."""
    took, left = Took(), iter(range(runs))

    async def approver(_place: int) -> None:
        for number in left:
            await cycle(took, f"{os.getpid()}-{number}")

    async with app:
        await app.inbox.list(limit=1)
        watching = [await watched() for _ in range(streams)]
        (HERE / BEGUN).touch()
        while not (HERE / GO).exists():
            await asyncio.sleep(0.02)
        began = time.monotonic()
        await asyncio.gather(*map(approver, range(approvers)))
        took.seconds = time.monotonic() - began
        for each in watching:
            each.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    return took


if __name__ == "__main__":
    (HERE / "writing").write_text(json.dumps(asdict(asyncio.run(drive(*map(int, sys.argv[1:4]))))))
    (HERE / "writing").rename(HERE / TOOK)
