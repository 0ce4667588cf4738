"""A pile of open requests: what a page of the inbox reads and how long it takes, while nobody decides.

    python -m trials.pile [--requests 1000000] [--pages 300] [--stores sqlite postgresql]

The rows are as the engine writes them, a hundred to a run, put into each store through the journal's own seam. Pages
are of the list, of one tool, of requests that are alike, of a search for a text that none has, and of the search of the
record. What is promised are the rows and lines that each reads, which are held by tests; times are of one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from keyturn import Agent, MemoryJournal, Runner, function_tool
from keyturn.audit.decisions.search import SearchTerms, search_page
from keyturn.core.seal import Chain, body_of
from keyturn.engine.run.open_run import chain_of
from keyturn.inbox.desk import Inbox
from keyturn.inbox.listing import Filters, ListPlace, listed
from keyturn.journal import open_journal
from keyturn.journal.base import Store
from keyturn.journal.rows import Changes, Query, RequestRow, RunRow
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.server.reading_logs import SEARCH_LOOKS
from keyturn.testing.postgres import PostgresMissing, throwaway_postgres

from .pace import percentile
from .table import grid

A_RUN = 100
BEGUN = 1_000_000
# Of so many requests one is like another.
SHAPES = 1_000
TOOLS = ("pay", "deploy", "delete", "mail", "ssh", "refund", "merge", "restart", "grant", "publish")
BODY = '{"label":"call_1","arguments":"{\\"to\\":\\"ada\\",\\"amount\\":5}","params":{"to":"ada","amount":5}}'
STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass
class Pile:
    """A store with so many open requests, the one of them that has a log, and what was read of it."""

    store: Store
    requests: int
    one: RequestRow
    rows: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def inbox(self) -> Inbox:
        """The inbox of the store, which counts what it reads."""
        return Inbox(self.store)

    def after(self) -> tuple[int, str]:
        """A place anywhere in the pile."""
        return BEGUN + self.chance.randrange(-(-self.requests // A_RUN)) * 7, ""

    def count(self) -> None:
        """Count the rows and lines that are read from now on."""
        store: Any = self.store
        for name in ("requests", "runs", "read"):
            setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*given: Any, **named: Any) -> Any:
            found = await read(*given, **named)
            self.rows += len(found)
            return found

        return counted


@function_tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


async def one_waiting(store: Store) -> RequestRow:
    """A run that waits, and its request."""
    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"to": "ada"})]]), tools=[pay])
    run = (await Runner.run(agent, "go", journal=store)).run_id
    [row] = await store.requests(Query(run=run))
    return row


async def bodies() -> list[bytes]:
    """The log of a run in which a person approved a call, to be sealed for any run."""
    journal = MemoryJournal()
    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"to": "ada"})], "Done."]), tools=[pay])
    paused = await Runner.run(agent, "go", journal=journal)
    state = paused.to_state()
    state.approve(paused.interruptions[0], by="ada")
    await Runner.run(agent, state)
    return [body_of(line) for line in await journal.read(paused.run_id)]


def sealed(chain: Chain, told: list[bytes]) -> Iterator[bytes]:
    """Seal these bodies as the lines of a run."""
    for body in told:
        line = chain.seal(body)
        chain.kept(line)
        yield line


async def piled(store: Store, requests: int) -> Pile:
    """Open that many requests."""
    one, told = await one_waiting(store), await bodies()
    for number in range(-(-requests // A_RUN)):
        run, at = f"{number:032x}", BEGUN + number * 7
        rows = [_row(run, number * A_RUN + place, at + place % 7, one.shape) for place in range(A_RUN)]
        lines = list(sealed(chain_of(store, run), told))
        row = RunRow(run, "desk", "waiting", at, at, A_RUN)
        await store.append(run, 0, lines, None, Changes(row, opened=rows))
    return Pile(store, requests, one)


def _row(run: str, number: int, at: int, shape: str) -> RequestRow:
    tool, digest = TOOLS[number % len(TOOLS)], "0" * 64
    row = RequestRow(f"{number:032x}", run, f"r/1.{number % A_RUN}", "approval", tool, "desk", digest, at, body=BODY)
    return replace(row, shape=f"{number % SHAPES:064x}" if number % SHAPES else shape)


# The pages ----------------------------------------------------------------------------------------------------------


async def any_page(pile: Pile) -> None:
    """Fifty, from anywhere in the pile."""
    page = await pile.inbox.list(Query(state="open", after=pile.after(), limit=50))
    assert page
    assert all(row.state == "open" for row in page)


async def of_one_tool(pile: Pile) -> None:
    """Fifty of one tool."""
    assert await pile.inbox.list(Query(state="open", after=pile.after(), limit=50, tool="ssh"))


async def of_no_tool(pile: Pile) -> None:
    """Of a tool that none calls, from the oldest on."""
    assert not await pile.inbox.list(Query(state="open", limit=50, tool="none"))


async def alike(pile: Pile) -> None:
    """Those of one shape."""
    page, _ = await pile.inbox.alike_page(pile.one, Query(after=pile.after()))
    assert {row.shape for row in page} == {pile.one.shape}


async def searched(pile: Pile) -> None:
    """A text that no request has."""
    found = await listed(
        pile.inbox, Filters(text="no such text", after=ListPlace(begin=pile.after())), lambda _row: True
    )
    assert not found.rows


async def of_the_record(pile: Pile) -> None:
    """The newest decisions of a person, as a page of the console asks for them."""
    found = await search_page(pile.store, SearchTerms(person="ada"), limit=25, newest=True, looks=SEARCH_LOOKS)
    assert found.entries


async def of_the_record_in_vain(pile: Pile) -> None:
    """Decisions of a person who made none: as far as a page goes."""
    at, _ = pile.after()
    after = f"{at}.{(at - BEGUN) // 7:032x}.0.0"
    found = await search_page(pile.store, SearchTerms(person="nobody"), after, limit=25, looks=SEARCH_LOOKS)
    assert not found.entries


#: Each page, by what it is called in the table, and of how many pages one is taken.
PAGES: dict[str, tuple[Callable[[Pile], Awaitable[None]], int]] = {
    "the list": (any_page, 1),
    "one tool": (of_one_tool, 1),
    "a tool in vain": (of_no_tool, 10),
    "alike": (alike, 1),
    "a search in vain": (searched, 10),
    "the record": (of_the_record, 10),
    "the record in vain": (of_the_record_in_vain, 30),
}


async def paged(pile: Pile, page: Callable[[Pile], Awaitable[None]], pages: int) -> tuple[int, list[float]]:
    """The most rows and lines that a page read, and the seconds that each took."""
    most, taken = 0, list[float]()
    for _ in range(pages):
        pile.rows, begun = 0, time.perf_counter()
        await page(pile)
        taken.append(time.perf_counter() - begun)
        most = max(most, pile.rows)
    return most, sorted(taken)


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


async def measure(url: str, requests: int, pages: int) -> tuple[str, list[list[str]]]:
    """What was made of a store, and a row of the table for each kind of page."""
    store: Any = open_journal(url)
    begun = time.perf_counter()
    pile = await piled(store, requests)
    filled = time.perf_counter() - begun
    if url.startswith("postgresql"):  # as autovacuum does by and by
        await store.write(lambda db: db.execute("ANALYZE"))
    pile.count()
    name, lines = STORES[url.partition(":")[0]], list[list[str]]()
    for what, (page, share) in PAGES.items():
        most, taken = await paged(pile, page, max(pages // share, 3))
        lines.append([name, what, f"{most:,}", *(f"{percentile(taken, part):.1f}" for part in (0.5, 0.99))])
    seen = await walked(pile.inbox, min(requests, 20_000))
    await store.close()
    size = f", {Path(url.removeprefix('sqlite:///')).stat().st_size / 1e6:,.0f} MB" if name == "SQLite" else ""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    made = f"{name}: {requests:,} open requests{size}, made in {filled:.0f} s"
    return f"{made}; {seen:,} walked in order; RSS {memory:.0f} MB", lines


@contextmanager
def place_of(store: str) -> Iterator[str]:
    """Where a new store of this kind is."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/pile.db"
    else:
        with throwaway_postgres(durable=True) as postgres:
            yield postgres.database()


HEAD = ["store", "a page of", "rows and lines, most", "p50, ms", "p99, ms"]


def main() -> None:
    """Fill, page, print."""
    parser = argparse.ArgumentParser(description="What a page of a huge inbox reads, and how long it takes.")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--stores", nargs="+", choices=list(STORES), default=list(STORES))
    options = parser.parse_args()
    table = list[list[str]]()
    for store in options.stores:
        try:
            with place_of(store) as url:
                told, lines = asyncio.run(measure(url, options.requests, options.pages))
        except PostgresMissing as error:
            print(f"no PostgreSQL here: {error}", file=sys.stderr)
            continue
        print(told, flush=True)
        table += lines
    print("\n" + grid(HEAD, table))


if __name__ == "__main__":
    main()
