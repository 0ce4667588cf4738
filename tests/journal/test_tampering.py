"""Group H: whatever is done to a store behind its back is found, and found at its place. The record is evidence."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, Runner, RunState, function_tool
from keyturn.audit.checker import CheckReport, check
from keyturn.core.errors import LogDamaged, StorageError
from keyturn.core.seal import Chain, erased
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.base import LostRace
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.support.keys import own_ring
from keyturn.testing import ScriptedModel, assistant_message, function_call
from tests.effort import AT_LENGTH
from tests.playing import play
from tests.scenarios import CATALOGUE

from .tampered import COLUMNS, OPERATIONS, Kept, looked, resealed, whole

# H1 -----------------------------------------------------------------------------------------------------------------


def altered(value: Any, dice: random.Random) -> Any:
    """The value with one byte changed."""
    if isinstance(value, int):
        return value ^ (1 << dice.randrange(6, 12))  # higher than any place, so that no other row is there
    data = bytearray(value.encode() if isinstance(value, str) else value)
    place = dice.randrange(len(data))
    data[place] ^= 1 << dice.randrange(5)
    return bytes(data) if isinstance(value, bytes) else data.decode("latin-1")


@pytest.mark.sweep
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("table", COLUMNS)
async def test_a_changed_byte_in_any_column_is_found(kept: Kept, table: str, sweep_size: int) -> None:
    dice = random.Random(table)
    rows, names = kept.rows(f"SELECT * FROM {table}"), [each[1] for each in kept.rows(f"PRAGMA table_info({table})")]
    for _ in range(sweep_size):
        row = dict(zip(names, dice.choice(rows), strict=True))
        column = dice.choice([name for name in COLUMNS[table] if row[name] not in (None, "")])
        new = altered(row[column], dice)
        keys = [name for name in ("tenant", "run", "seq", "id") if name in row]
        where = " AND ".join(f"{name} = ?" for name in keys)
        journal = kept.tampered(f"UPDATE {table} SET {column} = ? WHERE {where}", new, *(row[name] for name in keys))
        report = await looked(journal, kept.heads)
        assert not report.ok, f"{table}.{column} of {row['run']} is {new!r}"
        if table == "events" and column == "line":
            first = next(violation for violation in report.violations if violation.invariant == "I8")
            assert (first.run, first.position) == (row["run"], row["seq"])


async def shown(kept: Kept, old: str, new: str) -> CheckReport:
    [(name, body)] = kept.rows("SELECT id, body FROM requests WHERE body LIKE ? LIMIT 1", f"%{old}%")
    return await looked(kept.tampered("UPDATE requests SET body = ? WHERE id = ?", body.replace(old, new, 1), name))


@pytest.mark.asyncio(loop_scope="module")
async def test_what_people_are_shown_is_held_against_what_would_run(kept: Kept) -> None:
    report = await shown(kept, '"params":{"amount":3}', '"params":{"amount":4}')
    assert [violation.invariant for violation in report.violations] == ["I8"]
    report = await shown(kept, '"params":{"amount":3}', '"params":{"amount":"[redacted]"}')
    assert not report.ok, "what is hidden is hidden by who wrote the row, and by nobody later"


# H2 -----------------------------------------------------------------------------------------------------------------

MIDDLE = "run = (SELECT run FROM runs WHERE head > 8 ORDER BY run LIMIT 1)"
DONE: dict[str, tuple[str, int]] = {
    "a line is taken out": (f"DELETE FROM events WHERE {MIDDLE} AND seq = 4", 4),
    "a block is taken out": (f"DELETE FROM events WHERE {MIDDLE} AND seq BETWEEN 3 AND 5", 3),
    "a line is written over by an older one": (
        f"UPDATE events SET line = (SELECT line FROM events WHERE {MIDDLE} AND seq = 2) WHERE {MIDDLE} AND seq = 5",
        5,
    ),
    "two lines are swapped": (
        f"UPDATE events SET seq = CASE seq WHEN 4 THEN -5 ELSE -4 END WHERE {MIDDLE} AND seq IN (4, 5)",
        4,
    ),
    "a forged line is put at the end": (
        "INSERT INTO events (tenant, run, seq, line) SELECT tenant, run, head, "
        f'CAST(\'{{"v":2,"at":1,"events":[]}}\' AS BLOB) FROM runs WHERE {MIDDLE}',
        -1,
    ),
    "the tail is cut": (f"DELETE FROM events WHERE {MIDDLE} AND seq >= 7", 7),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("what", DONE)
async def test_lines_that_are_moved_about_are_found_and_named(kept: Kept, what: str) -> None:
    statement, position = DONE[what]
    journal = kept.tampered(statement)
    if "swapped" in what:
        await journal._writer.ask(lambda db: db.execute("UPDATE events SET seq = -seq WHERE seq < 0"))
    [(run, lines)] = kept.rows(f"SELECT run, head FROM runs WHERE {MIDDLE}")
    report = await looked(journal)
    assert (report.violations[0].run, report.violations[0].position) == (run, lines if position < 0 else position)
    assert {violation.run for violation in report.violations} == {run}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_log_of_another_run_or_tenant_is_found(kept: Kept) -> None:
    other, mine = kept.rows("SELECT run FROM runs WHERE head > 8 ORDER BY run LIMIT 2")
    copied = kept.tampered("DELETE FROM events WHERE run = ?", mine[0])
    await copied._writer.ask(
        lambda db: db.execute(
            "INSERT INTO events SELECT tenant, ?, seq, line FROM events WHERE run = ?", mine[0], other[0]
        )
    )
    report = await looked(copied)
    assert (report.violations[0].run, report.violations[0].invariant) == (mine[0], "I8")
    taken = kept.tampered("UPDATE events SET tenant = 'eve'")
    assert {violation.invariant for violation in (await looked(taken)).violations} >= {"I6", "I8"} - {"I6"}
    alone = kept.tampered("UPDATE runs SET tenant = 'eve'")
    assert not (await looked(alone)).ok, "requests whose run is gone"


@pytest.mark.parametrize("scenario", CATALOGUE[2::4], ids=lambda scenario: scenario.name)
async def test_any_line_dropped_doubled_or_swapped_is_a_violation(scenario: Any) -> None:
    kept_ = await whole(scenario)
    log, lines = kept_.log, list(kept_.log.lines)
    for what, operation in OPERATIONS.items():
        for place in range(len(lines) - (what == "swapped")):
            log.lines = operation(lines, place)
            report = await check(kept_.journal, heads=kept_.heads)
            assert not report.ok, f"line {place} {what}"
            if place == len(lines) - 1 and what == "dropped":  # a good chain that ends early: a head tells
                assert "I5" in {violation.invariant for violation in report.violations}
                continue
            assert (await check(kept_.journal)).violations[0].position == place + (what == "doubled")
    log.lines = lines
    assert (await check(kept_.journal, heads=kept_.heads)).ok


# H3 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="module")
async def test_a_cut_tail_shows_against_a_head_kept_elsewhere(kept: Kept) -> None:
    scenario = next(each for each in CATALOGUE if each.name == "ten_rounds")
    run = await whole(scenario)
    [(name, head)] = run.heads.items()
    log, lines = run.log, list(run.log.lines)
    log.lines = lines[:-3]
    [cut] = [v for v in (await check(run.journal, heads=run.heads)).violations if v.invariant == "I5"]
    assert (cut.run, cut.position) == (name, head.lines - 3)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_log_made_anew_by_somebody_without_the_key_is_found(kept: Kept) -> None:
    """H8: whoever can write the store can recompute whatever has no key; heads kept elsewhere are not needed."""
    scenario = next(each for each in CATALOGUE if each.name == "ten_rounds")
    run = await whole(scenario)
    [name] = run.heads
    log, lines = run.log, list(run.log.lines)
    forged = [lines[0].replace(b'"input":"go"', b'"input":"no"'), *lines[1:]]
    assert forged != lines
    stranger = own_ring()
    log.lines = resealed(Chain(lambda: stranger, "default", name), forged)
    [found] = (await check(run.journal)).violations
    assert (found.invariant, found.run, found.position) == ("I8", name, 0)
    with pytest.raises(LogDamaged, match="a key that this process does not have"):
        await log_in(run.journal, name)


# H4 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.trial
async def test_sixty_four_writers_make_one_log(tmp_path: Path) -> None:
    doors, lines_each = [SQLiteJournal(tmp_path / "runs.db") for _ in range(4)], 3 if AT_LENGTH else 1

    async def write(number: int) -> None:
        journal = doors[number % len(doors)]
        for place in range(lines_each):
            while True:
                try:
                    await journal.append("run", await journal.head("run"), [b"%d.%d" % (number, place)])
                    break
                except LostRace:
                    continue

    async with asyncio.timeout(50):
        await asyncio.gather(*(write(number) for number in range(64)))
    lines = await doors[0].read("run")
    assert sorted(lines) == sorted(b"%d.%d" % (number, place) for number in range(64) for place in range(lines_each))
    assert len(await doors[1].hashes("run")) == len(lines)
    await asyncio.gather(*(door.close() for door in doors))


# H6 -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["events", "requests", "runs"])
def barred(request: pytest.FixtureRequest) -> str:
    """A table that takes no change."""
    how = "UPDATE" if request.param != "events" else "INSERT"
    return f"CREATE TRIGGER barred BEFORE {how} ON {request.param} BEGIN SELECT RAISE(ABORT, 'no permission'); END"


async def test_a_decision_that_cannot_be_recorded_fails(tmp_path: Path, barred: str, streamed: bool) -> None:
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    journal = SQLiteJournal(tmp_path / "runs.db")
    model = ScriptedModel([[function_call("pay", {"amount": 5}, call_id="c1")], assistant_message("done")])
    agent = Agent("desk", model=model, tools=[pay])
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    before = (await journal.read(run), await journal.requests())
    await journal._writer.ask(lambda db: db.execute(barred))
    state = await RunState.load(journal, run, agent)
    state.approve(state.get_interruptions()[0])
    with pytest.raises(StorageError):
        await play(agent, state, streamed)
    assert ((await journal.read(run), await journal.requests()), paid) == (before, [])
    await journal._writer.ask(lambda db: db.execute("DROP TRIGGER barred"))
    assert (await check(journal)).ok
    await journal.close()


# H8 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_erased_is_gone_and_its_digests_still_prove_the_chain(kept: Kept) -> None:
    [(run,)] = kept.rows("SELECT run FROM grants LIMIT 1")
    journal = kept.tampered("UPDATE runs SET due = NULL WHERE run = ?", run)
    await journal.erase(run)
    report = await check(journal, heads=kept.heads)
    assert (report.ok, report.erased, report.unproven) == (True, 1, 0)
    assert await journal.read(run) == []
    forged = (
        "UPDATE events SET line = CAST(replace(line, substr(line, 2, 8), 'deadbeef') AS BLOB) WHERE run = ? AND seq = 3"
    )
    await journal._writer.ask(lambda db: db.execute(forged, run))
    report = await looked(journal, kept.heads)
    assert [(v.invariant, v.run, v.position) for v in report.violations] == [("I8", run, 3)]
    [(other,)] = kept.rows("SELECT run FROM runs WHERE head > 8 AND run <> ? LIMIT 1", run)
    [(line,)] = kept.rows("SELECT line FROM events WHERE run = ? AND seq = 5", other)
    merely = kept.tampered("UPDATE events SET line = ? WHERE run = ? AND seq = 5", erased(line), other)
    assert (await looked(merely)).violations[0][:3] == ("I8", other, 5), "nobody erased that run"
