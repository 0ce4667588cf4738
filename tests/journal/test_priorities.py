"""In which order runs that are due are claimed: by priority, and of one priority those first that are due for longest.

The order is that of a small model, over memory, SQLite and PostgreSQL: what was started, claimed, given back, written
to by others, and left by a worker that died.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyturn.journal import due_sql
from keyturn.journal.base import Claim, ClaimFilter
from keyturn.journal.memory import MemoryJournal
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.rows import Changes, RunRow
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.journal.tenants_sql import due_tenants
from keyturn.testing.suites.journal_case import Clock

MINUTE = 60_000
STEPS = st.lists(
    st.tuples(st.sampled_from(["start", "claim", "release", "later", "say", "pass"]), st.integers(0, 2)),
    min_size=4,
    max_size=24,
)


class Model:
    """A run is due at the time that it names, or when its claim ends; and it says how soon it is to be executed."""

    def __init__(self) -> None:
        self.priority, self.due = dict[str, int](), dict[str, int | None]()
        self.held = dict[str, Claim]()

    def wanted(self, now: int) -> list[tuple[int, int, str]]:
        """The runs that are due, in the order in which they are claimed."""
        ends = {run: claim.until for run, claim in self.held.items()}
        at = {run: ends.get(run, due) for run, due in self.due.items()}
        return sorted((self.priority[run], when, run) for run, when in at.items() if when is not None and when <= now)

    def sooner(self, run: str, when: int | None) -> None:
        """Somebody wants a run to be looked at."""
        self.due[run] = min((each for each in (self.due[run], when) if each is not None), default=None)


class Played:
    """The same steps, on a store and on the model."""

    def __init__(self, store: Any, clock: Clock) -> None:
        self.store, self.clock, self.model = store, clock, Model()
        self.claims = 0

    async def step(self, word: str, number: int) -> None:
        model, now = self.model, self.clock()
        live = sorted(run for run, claim in model.held.items() if claim.until > now)
        if word == "start":
            run = f"run{len(model.due)}"
            changes = Changes(RunRow(run, "desk", "running", now, now), priority=number)
            await self.store.append(run, 0, [b"1"], None, changes)
            model.priority[run], model.due[run] = number, now
        elif word == "claim":
            await self.claimed(number + 1)
        elif word in ("release", "later") and live:
            run, due = live[number % len(live)], now + 1_000 if word == "later" else None
            await self.store.release(model.held.pop(run), due)
            model.sooner(run, due)
        elif word == "say" and model.due:
            run = sorted(model.due)[number % len(model.due)]
            await self.store.append(run, await self.store.head(run), [b"2"])
            model.sooner(run, now)
        elif word == "pass":
            self.clock.advance(MINUTE // 2)

    async def claimed(self, limit: int) -> None:
        """Let a worker claim as a worker does, in one question or one by one."""
        model, self.claims = self.model, self.claims + 1
        wanted = [run for _, _, run in model.wanted(self.clock())][:limit]
        if hasattr(self.store, "claim_due"):
            claims = (await self.store.claim_due(f"w{self.claims}", MINUTE, limit, ClaimFilter())).claims
        else:
            found = await self.store.due(limit)
            claims = [await self.store.claim(run, f"w{self.claims}", MINUTE) for run in found]
        assert [claim.run for claim in claims] == wanted
        for claim in claims:
            model.held[claim.run], model.due[claim.run] = claim, None

    async def compared(self) -> None:
        wanted = self.model.wanted(self.clock())
        assert await self.store.due(100) == [run for _, _, run in wanted]
        oldest = [(each.at, each.run, each.priority) for each in await self.store.overdue(100)]
        assert oldest == sorted((at, run, priority) for priority, at, run in wanted)
        assert await self.store.due(1) == [run for _, _, run in wanted[:1]]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_due_runs_are_claimed_in_the_order_of_the_model(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    clock = Clock()
    if kind == "memory":
        journal: Any = MemoryJournal(clock)
    elif kind == "sqlite":
        journal = SQLiteJournal(tmp_path / "runs.db", clock=clock)
    else:
        journal = PostgresJournal(request.getfixturevalue("database"), clock=clock)
    tenants = iter(range(1_000_000))

    @settings(suppress_health_check=list(cast("Any", HealthCheck)), max_examples=60 if kind == "memory" else 15)
    @given(STEPS)
    def played(steps: list[tuple[str, int]]) -> None:
        async def play() -> None:
            playing = Played(journal.of(f"t{next(tenants)}"), clock)
            for step in steps:
                clock.advance(1)
                await playing.step(*step)
                await playing.compared()

        asyncio.run(play())

    played()
    if kind != "memory":
        asyncio.run(journal.close())


async def _due(store: Any, run: str, agent: str, due: Any = 1) -> None:
    def plant(db: Any) -> None:
        db.tell(_PLANTED, run, agent, due)

    await store.write(plant)


_PLANTED = "INSERT INTO runs (tenant, run, head, status, agent, due) VALUES ('default', ?, 1, 'running', ?, ?)"
DESK = ClaimFilter(("desk",), 9)


async def test_due_runs_of_agents_that_a_worker_has_not_are_not_read(tmp_path: Path) -> None:
    store: Any = SQLiteJournal(tmp_path / "runs.db")
    await _due(store, "mine", "desk")
    steps = list[int]()

    def counted(db: Any) -> None:
        """Count the operations of a look: by what is asked, and by what is next."""
        done = list[None]()
        db._db.set_progress_handler(lambda: done.append(None) is not None, 1)
        assert [each.run for each in due_sql.due(db, store._dialect, "default", 5, DESK)] == ["mine"]
        assert due_sql.next_due(db, store._dialect, "default", DESK) == 1
        assert [each.at for each in due_tenants(db, store._dialect)] == [1]
        db._db.set_progress_handler(None)
        steps.append(len(done))

    for more in range(0, 60, 20):
        for number in range(more, more + 20):
            await _due(store, f"other{number}", "other", 1 + number)
        await store.whole(counted)
    assert steps[1] == steps[2]  # the first look of a connection reads the schema, too
    await store.close()


async def test_rows_that_hold_what_is_no_time_or_priority_hide_no_run_that_is_due(tmp_path: Path) -> None:
    store = SQLiteJournal(tmp_path / "runs.db")
    for run, agent in (("first", "desk"), ("last", "zoo")):
        await _due(store, run, agent)
    for number, (column, value) in enumerate(
        [("due", "soon"), ("due", b"\0"), ("agent", b"desk"), ("needs", "many"), ("priority", "high"), ("priority", 77)]
    ):
        await _due(store, f"planted{number}", "desk")
        change = f"UPDATE runs SET {column} = ? WHERE run = 'planted{number}'"
        await store.write(lambda db, change=change, value=value: db.tell(change, value))
    assert {"first", "last"} <= {*await store.due(10)}
    assert [each.tenant for each in await store.due_tenants()] == ["default"]
    await store.wait_until_due()
    await store.close()
