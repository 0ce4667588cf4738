"""The inbox and the insights of a full store: `open` requests that wait, `decided` requests that were decided.

The rows are written by a generator, with right seals, and read through the journal's own door. Milliseconds
of CPU, since others are at work on the machine, too: the slowest page but one of a hundred (p99) of fifty rows with any
one filter, and the insights of ninety days.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ..script import require
from ..subjects import Subject

PAGE = 50
PAGES = 100
TOOLS = [f"tool_{number}" for number in range(20)]
AGENTS = [f"desk/agent_{number}" for number in range(10)]
PEOPLE = [f"person{number}@example.com" for number in range(40)]
KINDS = ["approval"] * 97 + ["external"] * 2 + ["in_doubt"]
VERDICTS = ["approve"] * 85 + ["edit"] * 5 + ["reject"] * 7 + ["expire"] * 3
DAY_MS = 86_400_000
NOW = 20_000 * DAY_MS
BODY = '{"arguments":"{\\"amount\\":%d}","params":{"amount":%d},"verdicts":["approve","edit","reject","answer"]}'
# Each filter, and one that only few requests fit.
FILTERS: dict[str, dict[str, Any]] = {
    "state": {"state": "open"},
    "tool": {"state": "open", "tool": TOOLS[3]},
    "rare_tool": {"state": "open", "tool": "seldom"},
    "agent": {"state": "open", "agent": AGENTS[3]},
    "rare_agent": {"state": "open", "agent": "seldom"},
    "kind": {"state": "open", "kind": "approval"},
    "rare_kind": {"state": "open", "kind": "in_doubt"},
    "run": {"state": "open", "run": "run 777"},
    "no_such_tool": {"state": "open", "tool": "none"},
    "no_such_agent": {"state": "open", "agent": "none"},
    "no_such_kind": {"state": "open", "kind": "none"},
}


def measure(subject: Subject, open: int = 0, decided: int = 0) -> dict[str, Any]:
    """Milliseconds of the pages and of the insights."""
    if subject.name != "keyturn":
        return {"missing": "it has no inbox"}
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measured(Path(folder) / "runs.db", open, decided))


async def measured(path: Path, open: int, decided: int) -> dict[str, Any]:
    """Fill a store and measure it."""
    from keyturn.journal.sqlite import SQLiteJournal

    journal = SQLiteJournal(path, clock=lambda: NOW)
    found: dict[str, Any] = {}
    await fill(journal, open, decided)
    if open:
        for name, asked in FILTERS.items():
            found[f"{name}_ms"] = await slowest(journal, asked)
        found["ms"] = max(found.values())
    if decided:
        from keyturn.inbox.insights import Insights

        begun = time.process_time()
        report = await Insights(journal).report(days=90)
        found["insights_ms"] = (time.process_time() - begun) * 1e3
        require(report.total.ended == decided, f"{report.total.ended} of {decided} are counted")
    await journal.close()
    return found


async def slowest(journal: Any, asked: dict[str, Any]) -> float:
    """The p99 of pages that follow each other, begun anew where there are no more."""
    from keyturn.journal.rows import Query

    times: list[float] = []
    after = None
    for _ in range(PAGES):
        begun = time.process_time()
        rows = await journal.requests(Query(**asked, after=after, limit=PAGE))
        times.append((time.process_time() - begun) * 1e3)
        after = (rows[-1].asked_at, rows[-1].id) if len(rows) == PAGE else None
    return sorted(times)[-2]


async def fill(journal: Any, open: int, decided: int) -> None:
    """Write open requests, and the counts of decided ones with the newest of their rows."""
    from keyturn.journal import statements as say
    from keyturn.journal.sealing import columns, seal_row
    from keyturn.journal.tally_sql import add

    keys = journal.keys()

    def write(db: Any, rows: list[Any]) -> None:
        for row in rows:
            db.tell(say.OPEN, journal.tenant, *columns(row), seal_row(keys, journal.tenant, row))

    for rows in batches(requests(open), 20_000):
        await journal.write(lambda db, rows=rows: write(db, rows))
    for tallies in batches(counts(decided), 100_000):
        await journal.write(lambda db, tallies=tallies: add(db, [(journal.tenant, each) for each in tallies]))


def requests(count: int) -> Iterator[Any]:
    """Rows of requests that wait."""
    from keyturn.journal.rows import RequestRow

    dice = random.Random(5)
    for number in range(count):
        seldom = "seldom" if number % (count // 20 or 1) == 0 else ""
        yield RequestRow(
            id=f"{dice.getrandbits(128):032x}",
            run=f"run {number // 4}",
            call="r/1.0",
            kind=dice.choice(KINDS),
            tool=seldom or dice.choice(TOOLS),
            agent=seldom or dice.choice(AGENTS),
            digest="d" * 64,
            asked_at=NOW - (count - number) * 10,
            reason="over the limit",
            body=BODY % (number, number),
        )


def counts(count: int) -> Iterator[Any]:
    """Tallies of decisions over ninety days."""
    from keyturn.journal.rows import Tally

    dice = random.Random(5)
    for _ in range(count):
        at = NOW - dice.randrange(89 * DAY_MS)
        verdict = dice.choice(VERDICTS)
        person = "" if verdict == "expire" else dice.choice(PEOPLE)
        names = {"tool": dice.choice(TOOLS), "agent": AGENTS[0], "kind": "approval", "person": person}
        took = int(dice.lognormvariate(10, 2))
        yield Tally.once(verdict, took, at=at, **names)
        if verdict in ("approve", "edit"):
            yield Tally.once("read", took, at=at, **names)


def batches(rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """The rows in lists."""
    while batch := list(islice(rows, size)):
        yield batch
