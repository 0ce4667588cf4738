"""What a decision costs whose terms ask for a quorum and a role, beside one that asks for nobody in particular.

Each is a word at an inbox on SQLite: found, read, judged, appended. With terms it is that of somebody who logged in, in
a directory of `people`, and every second one decides. CPU time, since others are at work on the machine, too.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ..script import require
from ..subjects import Subject

WARM = 10
CHUNKS = 10


def measure(subject: Subject, n: int, people: int) -> dict[str, Any]:
    """Milliseconds of a word with and without terms, and how many times as long the one takes."""
    if subject.name != "keyturn":
        return {"missing": "it has no inbox"}
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measured(Path(folder) / "runs.db", n, people))


async def measured(path: Path, n: int, people: int) -> dict[str, Any]:
    """Begin `n` runs of each kind and decide them by turns."""
    from keyturn import Inbox
    from keyturn.directory.login import Login
    from keyturn.journal.sqlite import SQLiteJournal

    journal = SQLiteJournal(path)
    inbox = Inbox(journal)
    await inbox.people.start("root")
    for number in range(people):
        await inbox.people.add(f"person{number}", roles=["lead"], by="root")
    plain = [await asked(journal, "plain") for _ in range(n + WARM)]
    joint = [await asked(journal, "joint") for _ in range(n + WARM)]

    async def one(row: Any) -> None:
        await inbox.approve(row, by="ada")

    async def both(row: Any) -> None:
        for number in range(2):
            await inbox.approve(row, by=Login(f"person{number}"))

    for row in plain[n:]:
        await one(row)
    for row in joint[n:]:
        await both(row)
    alone = terms = 0.0
    size = n // CHUNKS
    for start in range(0, n, size):
        alone += await taken(one, plain[start : start + size])
        terms += await taken(both, joint[start : start + size])
    require(not await inbox.list(), "a request was left open")
    await journal.close()
    found = {"plain_ms": alone * 1e3 / n, "terms_ms": terms * 1e3 / (2 * n)}
    return {**found, "times": found["terms_ms"] / found["plain_ms"], "settled_ms": 2 * found["terms_ms"]}


async def asked(journal: Any, tool: str) -> Any:
    """The request of a new run that waits."""
    from keyturn import Agent, Approval, Runner, function_tool
    from keyturn.journal.rows import Query
    from keyturn.testing import ScriptedModel, function_call

    def pay(to: str, amount: int) -> str:
        return f"paid {amount} to {to}"

    terms = Approval(role="lead", quorum=2) if tool == "joint" else Approval()
    tools = [function_tool(pay, name_override=tool, approval=terms)]
    model = ScriptedModel([[function_call(tool, {"to": "ann", "amount": 5})], "done"])
    result = await Runner.run(Agent("desk", model=model, tools=tools), "go", journal=journal)
    [row] = await journal.requests(Query(run=result.run_id))
    return row


async def taken(decide: Callable[[Any], Awaitable[None]], rows: list[Any]) -> float:
    """The CPU seconds of deciding these."""
    begun = time.process_time()
    for row in rows:
        await decide(row)
    return time.process_time() - begun
