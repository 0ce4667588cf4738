"""A pile of open requests: how long a page of the inbox takes, and how much memory, while nobody decides.

    python -m trials.pile [--requests 1000000] [--pages 300]

The rows are as the engine writes them, a hundred to a run, put into a SQLite file through the journal's own seam.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import tempfile
import time
from pathlib import Path

from keyturn.inbox.desk import Inbox
from keyturn.journal.base import Store
from keyturn.journal.rows import Changes, Query, RequestRow, RunRow
from keyturn.journal.sqlite import SQLiteJournal

from .pace import percentile
from .table import grid

A_RUN = 100
TOOLS = ("pay", "deploy", "delete", "mail", "ssh", "refund", "merge", "restart", "grant", "publish")
BODY = '{"label":"call_1","arguments":"{\\"to\\":\\"ada\\",\\"amount\\":5}","params":{"to":"ada","amount":5}}'


async def pile(store: Store, requests: int) -> None:
    """Open that many requests."""
    for number in range(-(-requests // A_RUN)):
        run, at = f"{number:032x}", 1_000_000 + number * 7
        rows = [_row(run, number * A_RUN + place, at + place % 7) for place in range(A_RUN)]
        await store.append(run, 0, [b"{}"], None, Changes(RunRow(run, "desk", "waiting", at, at, A_RUN), opened=rows))


def _row(run: str, number: int, at: int) -> RequestRow:
    tool, digest = TOOLS[number % len(TOOLS)], "0" * 64
    return RequestRow(f"{number:032x}", run, f"r/1.{number % A_RUN}", "approval", tool, "desk", digest, at, body=BODY)


async def paged(inbox: Inbox, requests: int, pages: int, tool: str | None = None) -> list[float]:
    """Seconds for each page of fifty, from anywhere in the pile."""
    chance, taken = random.Random(7), list[float]()
    for _ in range(pages):
        after = (1_000_000 + chance.randrange(-(-requests // A_RUN)) * 7, "")
        begun = time.perf_counter()
        page = await inbox.list(Query(state="open", after=after, limit=50, tool=tool))
        taken.append(time.perf_counter() - begun)
        assert page
        assert all(row.state == "open" for row in page)
    return sorted(taken)


async def walked(inbox: Inbox, most: int) -> int:
    """Page from the beginning until so many were seen: none twice, in order."""
    seen, after = 0, None
    while seen < most:
        page = await inbox.list(Query(state="open", after=after, limit=500))
        keys = [(row.asked_at, row.id) for row in page]
        assert keys == sorted(set(keys))
        assert after is None or keys[0] > after
        seen, after = seen + len(page), keys[-1]
    return seen


async def measure(requests: int, pages: int) -> str:
    """The table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pile.db"
        journal = SQLiteJournal(path)
        begun = time.perf_counter()
        await pile(journal, requests)
        filled = time.perf_counter() - begun
        inbox = Inbox(journal)
        pages_of = {
            "any": await paged(inbox, requests, pages),
            "one tool": await paged(inbox, requests, pages, tool="ssh"),
        }
        seen = await walked(inbox, min(requests, 20_000))
        await journal.close()
        size = path.stat().st_size / 1e6
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = [
        [name, f"{percentile(taken, 0.5):.1f}", f"{percentile(taken, 0.99):.1f}"] for name, taken in pages_of.items()
    ]
    made = f"{requests:,} open requests, {size:,.0f} MB, made in {filled:.0f} s"
    about = f"{made}; {seen:,} walked in order; RSS {memory:.0f} MB"
    return about + "\n\n" + grid(["a page of fifty", "p50, ms", "p99, ms"], lines)


def main() -> None:
    """Fill, page, print."""
    parser = argparse.ArgumentParser(description="How long a page of a huge inbox takes.")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=300)
    options = parser.parse_args()
    print(asyncio.run(measure(options.requests, options.pages)))


if __name__ == "__main__":
    main()
