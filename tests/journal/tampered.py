"""A healthy store, and what somebody does to it behind its back: in a file by SQL, in memory line by line."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keyturn import Agent, Grant, MemoryJournal, Runner, function_tool
from keyturn.audit.checker import CheckReport, Head, check, heads
from keyturn.core.seal import Chain, body_of
from keyturn.journal.base import Store
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, function_call
from keyturn.testing.crash import play
from tests.scenarios import CATALOGUE


@dataclass
class Kept:
    """A healthy store in a file, and how far its runs had come as somebody wrote it down elsewhere."""

    path: Path
    heads: dict[str, Head]
    runs: list[str]

    def tampered(self, statement: str, *values: Any) -> SQLiteJournal:
        """A copy to which somebody did this with SQL of their own."""
        copy = self.path.with_name("tampered.db")
        for end in ("", "-wal", "-shm"):
            copy.with_name(copy.name + end).unlink(missing_ok=True)
        shutil.copy(self.path, copy)
        with sqlite3.connect(copy) as db:
            db.execute(statement, values)
            assert db.total_changes >= 1, "nothing was altered"
        db.close()
        return SQLiteJournal(copy)

    def rows(self, statement: str, *values: Any) -> list[Any]:
        with sqlite3.connect(self.path) as db:
            found = db.execute(statement, values).fetchall()
        db.close()
        return found


async def granted(journal: Store) -> None:
    """A run with a standing decision, one use of it, and a call that waits."""

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    rounds = [[function_call("pay", {"amount": amount}, call_id=f"c{amount}")] for amount in (1, 2, 3)]
    agent = Agent("desk", model=ScriptedModel(rounds), tools=[pay])
    state = (await Runner.run(agent, "go", journal=journal)).to_state()
    state.approve(state.get_interruptions()[0], grant=Grant(uses=1), by="ada")
    await Runner.run(agent, state)


async def made(path: Path) -> Kept:
    """A healthy store of many runs in a file."""
    journal = SQLiteJournal(path)
    for scenario in CATALOGUE[1:12]:
        await play(replace(scenario, options={**scenario.options, "journal": journal}))
    await granted(journal)
    known = await heads(journal)
    assert (await check(journal, heads=known)).ok
    await journal.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return Kept(path, known, sorted(known))


async def looked(journal: Any, known: dict[str, Head] | None = None) -> CheckReport:
    report = await check(journal, heads=known)
    await journal.close()
    return report


COLUMNS = {
    "events": ("tenant", "run", "seq", "line"),
    "runs": (
        *("tenant", "run", "head", "agent", "status", "started_at", "updated_at", "waiting", "turns", "workflow"),
        "seal",
    ),
    "requests": (
        *("tenant", "id", "run", "call", "kind", "tool", "agent", "digest", "asked_at", "state", "closed_at", "body"),
        *("closed_by", "reason", "risk", "expires_at", "shape", "seal"),
    ),
    "grants": ("tenant", "run", "id", "tool", "agent", "body", "uses", "revoked", "seal"),
}


@dataclass
class Whole:
    """One scenario's run in memory, to be altered line by line."""

    journal: MemoryJournal
    heads: dict[str, Head]

    @property
    def log(self) -> Any:
        return next(iter(self.journal._mine.logs.values()))


OPERATIONS: dict[str, Callable[[list[bytes], int], list[bytes]]] = {
    "dropped": lambda lines, place: [*lines[:place], *lines[place + 1 :]],
    "doubled": lambda lines, place: [*lines[: place + 1], *lines[place:]],
    "swapped": lambda lines, place: [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]],
}


async def whole(scenario: Any) -> Whole:
    journal = MemoryJournal()
    await play(replace(scenario, options={**scenario.options, "journal": journal}))
    return Whole(journal, await heads(journal))


def resealed(chain: Chain, lines: list[bytes]) -> list[bytes]:
    """The same bodies, sealed by whoever has that chain's keys."""
    made: list[bytes] = []
    for line in lines:
        made.append(chain.seal(body_of(line)))
        chain.kept(made[-1])
    return made
