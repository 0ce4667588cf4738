"""A process whose memory is taken away in the midst of a run: `python -m tests.journal.short_of_memory URL EFFECTS`.

For each place and margin it starts a run, lowers its own limit (RLIMIT_AS) there, and says what came of it in a line.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

from keyturn import Agent, Runner, function_tool
from keyturn.journal import open_journal
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call, last_user_text, tool_outputs

MiB = 1 << 20
LONG = "x" * (2 * MiB)  # recorded, it is there several times: as text, as line, in what SQLite is given
PLACES = [
    *((place, margin) for place in ("tool", "model") for margin in (32.0, 16.0)),
    *(("append", quarter / 4) for quarter in range(0, 28, 2)),
]


def short_by(margin: float) -> None:
    """From now on this process has so many MiB more than it uses now, and no more."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(margin * MiB), resource.RLIM_INFINITY))


def enough() -> None:
    """Give it back."""
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def agent(effects: Path, *, greedy: bool) -> Agent[Any]:
    """An agent whose run acts once; what it is told to do says where its memory is taken, and how much is left."""

    @function_tool
    async def act(name: str) -> str:
        """Act."""
        with effects.open("a") as acted:
            acted.write(name + "\n")
        place, _, margin = name.partition(" ")
        if greedy and place != "model":
            short_by(float(margin))
        return str(len(bytearray(1024 * MiB))) if greedy and place == "tool" else LONG

    def reply(items: Any) -> Any:
        name = last_user_text(items)
        if not tool_outputs(items):
            return [function_call("act", {"name": name}, call_id="c1")]
        if greedy and name.startswith("model"):
            short_by(float(name.partition(" ")[2]))
            return str(len(bytearray(1024 * MiB)))
        return "done"

    return Agent("a", model=ScriptedModel(reply), tools=[act])


async def main(url: str, effects: Path) -> None:
    """Try each place."""
    journal: Any = open_journal(url)
    for place, margin in PLACES:
        name, run, error = f"{place} {margin}", "", ""
        try:
            run = (await Runner.run(agent(effects, greedy=True), name, journal=journal)).run_id
        except Exception as raised:
            enough()
            error = type(raised).__name__
            known: Any = getattr(raised, "run_data", None)  # what there may be no memory for either
            run = (await journal.runs(Query(newest=True, limit=1)))[0].run if known is None else known.run_id
        enough()
        print(json.dumps([name, run, error]), flush=True)
    await journal.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
