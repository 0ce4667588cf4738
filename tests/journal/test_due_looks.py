"""What a look at due runs reads: what it may return, however many runs are queued or due behind that."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn.journal import due_sql
from keyturn.journal.base import ClaimFilter
from keyturn.journal.lease_sql import LONGEST_MS
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.journal.tenants_sql import due_tenants

_ADDED = (
    "INSERT INTO runs (tenant, run, head, status, agent, due, session, place, holder, held_until) "
    "VALUES ('default', ?, 1, ?, ?, ?, ?, ?, ?, ?)"
)
ANY = ClaimFilter()


@pytest.fixture(params=["sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    made: Any = (
        SQLiteJournal(tmp_path / "runs.db")
        if request.param == "sqlite"
        else PostgresJournal(request.getfixturevalue("database"))
    )
    yield made
    await made.close()


async def add(store: Any, *rows: tuple[Any, ...], empty: bool = False) -> None:
    """Add runs: run, status, agent, due, session, place, holder, and until when it is held."""

    def told(db: Any) -> None:
        if empty:
            db.tell("DELETE FROM runs")
        for row in rows:
            db.tell(_ADDED, *row)

    await store.write(told)


async def steps(store: Any, look: Callable[[Any], None]) -> int:
    """Return how many operations of SQLite a look takes."""
    done = list[None]()

    def counted(db: Any) -> None:
        look(db)  # the first look of a connection reads the schema, too
        db._db.set_progress_handler(lambda: done.append(None) is not None, 1)
        look(db)
        db._db.set_progress_handler(None)

    await store.whole(counted)
    return len(done)


@pytest.mark.parametrize("first", ["waiting", "queued"])
async def test_a_look_reads_one_run_of_those_that_are_queued_on_a_session(first: str, tmp_path: Path) -> None:
    """Ten thousand took it 30 ms in SQLite and 300 in PostgreSQL, ten times a second."""
    store: Any = SQLiteJournal(tmp_path / "runs.db")
    dialect, turn = store._dialect, ["run0"] if first == "queued" else []
    await add(store, ("run0", first, "desk", None, "s", 1, None, None))

    def look(db: Any) -> None:
        assert [each.run for each in due_sql.due(db, dialect, "default", 10, ANY)] == turn
        assert [each.run for each in due_sql.overdue(db, dialect, "default", 10, ANY)] == turn
        assert due_sql.next_due(db, dialect, "default", ANY) == (0 if turn else None)
        assert [each.tenant for each in due_tenants(db, dialect)] == ["default"] * len(turn)

    taken = list[int]()
    for more in range(0, 60, 20):
        rows = [(f"behind{n}", "queued", "desk", None, "s", 2 + n, None, None) for n in range(more, more + 20)]
        await add(store, *rows)
        taken.append(await steps(store, look))
    assert len({*taken}) == 1
    await store.close()


async def test_the_oldest_of_many_agents_are_found_without_a_page_of_each(tmp_path: Path) -> None:
    """A hundred agents with five hundred due runs each took it 90 to 200 ms."""
    store: Any = SQLiteJournal(tmp_path / "runs.db")
    taken, agents = list[int](), 25

    def look(db: Any) -> None:
        found = due_sql.overdue(db, store._dialect, "default", 100, ANY)
        assert [each.at for each in found] == [*range(1, 101)]

    for more in range(4, 36, 4):
        rows = [
            (f"run{n}", "running", f"agent{n % agents}", n + 1, "", 0, None, None)
            for n in range(agents * (more - 4), agents * more)
        ]
        await add(store, *rows)
        taken.append(await steps(store, look))
    assert taken[-1] == taken[-2]
    await store.close()


async def test_the_oldest_of_one_agent_are_read_at_once_however_many_others_are_due(tmp_path: Path) -> None:
    """A worker asks for them once a second, and has no share of a page with agents that it cannot move."""
    store: Any = SQLiteJournal(tmp_path / "runs.db")
    rows = [(f"run{n}", "running", f"agent{n % 25}", n + 1, "", 0, None, None) for n in range(25 * 20)]
    await add(store, *rows)
    asked = list[str]()

    def trace(_cursor: object, said: str, _values: object) -> bool:
        asked.append(said)
        return True

    def look(db: Any) -> None:
        db._db.set_exec_trace(trace)
        found = due_sql.overdue(db, store._dialect, "default", 20, ClaimFilter(("agent7",), 9))
        db._db.set_exec_trace(None)
        assert [each.agent for each in found] == ["agent7"] * 20

    await store.whole(look)
    assert len(asked) == 2
    await store.close()


async def test_what_is_due_is_what_a_look_at_each_run_would_find(store: Any) -> None:
    """Of runs in any state, on sessions and on none."""
    dice, now = random.Random(27), await store.now()
    for part in range(4):
        places, rows = iter(dice.sample(range(1, 1_000), 60)), list[tuple[Any, ...]]()
        for number in range(60):
            session = dice.choice(["", "a", "a", "b", "c\N{SNOWMAN}"])
            held = dice.random() < 0.1
            due = None if held else dice.choice([None, None, None, now - dice.randrange(1_000), now + 3_600_000])
            run = f"run{part}-{number}", dice.choice(["queued", "queued", "queued", "running", "waiting"])
            until = (f"w{number}", now + dice.choice([60_000, 7_200_000 + number])) if held else (None, None)
            rows.append((*run, f"agent{dice.randrange(4)}", due, session, next(places) if session else 0, *until))
        await add(store, *rows, empty=True)
        wanted = sorted((row[3] or row[7] or 0, row[0]) for row in rows if _is_due(row, rows, now))
        assert [each.run for each in await store.overdue(100)] == [run for _, run in wanted]
        for limit in (1, 3, 7, 20, len(wanted)):
            assert [each.run for each in await store.overdue(limit)] == [run for _, run in wanted[:limit]]
            assert await store.due(limit) == [run for _, run in wanted[:limit]]
        assert len(await store.due_tenants()) == 1


def _is_due(row: tuple[Any, ...], rows: list[tuple[Any, ...]], now: int) -> bool:
    _, status, _, due, session, place, _, until = row
    if until is not None:
        return until > now + LONGEST_MS  # as only a clock that was wrong can have it
    if due is not None:
        return due <= now
    return status == "queued" and not any(session and each[4] == session and each[5] < place for each in rows)
