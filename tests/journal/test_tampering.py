"""Group H: whatever is done to a store behind its back is found, and found at its place. The record is evidence."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from keyturn import Agent, App, Conflict, Grant, Inbox, MemoryJournal, Runner, RunState, function_tool
from keyturn.audit.checker import Head, Report, check, heads
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import encode
from keyturn.core.errors import LogDamaged, StorageError
from keyturn.core.seal import Chain, body_of, erased
from keyturn.engine.live import chain_of
from keyturn.engine.recent import forget, kept_in, log_in
from keyturn.journal.base import LostRace, Store
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.keys import own_ring
from keyturn.models.scripted import tool_outputs
from keyturn.testing import ScriptedModel, assistant_message, function_call
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    path = tmp_path_factory.mktemp("kept") / "runs.db"
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


async def looked(journal: Any, known: dict[str, Head] | None = None) -> Report:
    report = await check(journal, heads=known)
    await journal.close()
    return report


# H1 -----------------------------------------------------------------------------------------------------------------

COLUMNS = {
    "events": ("tenant", "run", "seq", "line"),
    "runs": (
        *("tenant", "run", "head", "agent", "status", "started_at", "updated_at", "waiting", "turns", "workflow"),
        "seal",
    ),
    "requests": (
        *("tenant", "id", "run", "call", "kind", "tool", "agent", "digest", "asked_at", "state", "closed_at", "body"),
        *("closed_by", "reason", "risk", "expires_at", "seal"),
    ),
    "grants": ("tenant", "run", "id", "tool", "agent", "body", "uses", "revoked", "seal"),
}


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
async def test_h1_a_changed_byte_in_any_column_is_found(kept: Kept, table: str, sweep_size: int) -> None:
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


async def shown(kept: Kept, old: str, new: str) -> Report:
    [(name, body)] = kept.rows("SELECT id, body FROM requests WHERE body LIKE ? LIMIT 1", f"%{old}%")
    return await looked(kept.tampered("UPDATE requests SET body = ? WHERE id = ?", body.replace(old, new, 1), name))


@pytest.mark.asyncio(loop_scope="module")
async def test_h1_what_people_are_shown_is_held_against_what_would_run(kept: Kept) -> None:
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
async def test_h2_lines_that_are_moved_about_are_found_and_named(kept: Kept, what: str) -> None:
    statement, position = DONE[what]
    journal = kept.tampered(statement)
    if "swapped" in what:
        await journal._writer.ask(lambda db: db.execute("UPDATE events SET seq = -seq WHERE seq < 0"))
    [(run, lines)] = kept.rows(f"SELECT run, head FROM runs WHERE {MIDDLE}")
    report = await looked(journal)
    assert (report.violations[0].run, report.violations[0].position) == (run, lines if position < 0 else position)
    assert {violation.run for violation in report.violations} == {run}


@pytest.mark.asyncio(loop_scope="module")
async def test_h2_a_log_of_another_run_or_tenant_is_found(kept: Kept) -> None:
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


@pytest.mark.parametrize("scenario", CATALOGUE[2::4], ids=lambda scenario: scenario.name)
async def test_h2_any_line_dropped_doubled_or_swapped_is_a_violation(scenario: Any) -> None:
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
async def test_h3_a_cut_tail_shows_against_a_head_kept_elsewhere(kept: Kept) -> None:
    scenario = next(each for each in CATALOGUE if each.name == "ten_rounds")
    run = await whole(scenario)
    [(name, head)] = run.heads.items()
    log, lines = run.log, list(run.log.lines)
    log.lines = lines[:-3]
    [cut] = [v for v in (await check(run.journal, heads=run.heads)).violations if v.invariant == "I5"]
    assert (cut.run, cut.position) == (name, head.lines - 3)


@pytest.mark.asyncio(loop_scope="module")
async def test_h8_a_log_made_anew_by_somebody_without_the_key_is_found(kept: Kept) -> None:
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


def resealed(chain: Chain, lines: list[bytes]) -> list[bytes]:
    """The same bodies, sealed by whoever has that chain's keys."""
    made: list[bytes] = []
    for line in lines:
        made.append(chain.seal(body_of(line)))
        chain.kept(made[-1])
    return made


# What is read to be driven, decided or shown ----------------------------------------------------------------------

RESEALED = own_ring()
CHANGED: dict[str, Callable[[list[bytes], int], list[bytes]]] = {
    **OPERATIONS,
    "one bit flipped": lambda lines, at: [*lines[:at], flipped(lines[at], 8 * 12 + 1), *lines[at + 1 :]],
    "its seal flipped": lambda lines, at: [*lines[:at], flipped(lines[at], 8 * len(lines[at]) - 7), *lines[at + 1 :]],
    "its seal gone": lambda lines, at: [*lines[:at], body_of(lines[at]), *lines[at + 1 :]],
    "cut short": lambda lines, at: [*lines[:at], lines[at][: len(lines[at]) // 2], *lines[at + 1 :]],
    "emptied": lambda lines, at: [*lines[:at], b"", *lines[at + 1 :]],
    "erased alone": lambda lines, at: [*lines[:at], erased(lines[at]), *lines[at + 1 :]],
    "erased by a forger": lambda lines, at: [*lines[:at], b"#" + b"0" * 64 + b"\tkey.mac", *lines[at + 1 :]],
    "of an older format": lambda lines, at: [*lines[:at], b'{"at":1,"events":[]}', *lines[at + 1 :]],
    "sealed with another key": lambda lines, at: [
        *lines[:at],
        Chain(lambda: RESEALED, "default", "run").seal(body_of(lines[at])),
        *lines[at + 1 :],
    ],
}


def flipped(line: bytes, bit: int) -> bytes:
    changed = bytearray(line)
    changed[(bit // 8) % len(changed)] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("what", CHANGED)
async def test_h8_no_changed_line_is_believed_by_anybody_who_reads(what: str) -> None:
    """H3, H8, L1: at every place, by every reader: `LogDamaged` that names the line, and nothing else."""
    scenario = next(each for each in CATALOGUE if each.name == "ten_rounds")
    run = await whole(scenario)
    [name] = run.heads
    log, lines = run.log, list(run.log.lines)
    for place in range(len(lines) - (what == "swapped") - (what == "dropped")):
        forget()
        log.lines = CHANGED[what](lines, place)
        with pytest.raises(LogDamaged) as caught:
            await log_in(run.journal, name)
        assert (caught.value.run, caught.value.line) == (name, place + (what == "doubled"))
    log.lines = lines
    assert len(await log_in(run.journal, name)) == len(lines)


async def test_h8_a_log_of_another_run_or_tenant_is_not_read() -> None:
    """H8: every line is good where it stands, and nowhere else."""
    journal = MemoryJournal()
    agent = Agent("a", model=ScriptedModel([assistant_message("hello")] * 2))
    one, other = [(await Runner.run(agent, "hi", journal=journal)).run_id for _ in range(2)]
    logs = journal._mine.logs
    logs[one].lines = list(logs[other].lines)
    with pytest.raises(LogDamaged) as caught:
        await log_in(journal, one)
    assert caught.value.line == 0
    theirs = journal.of("them")
    theirs._mine.logs[other] = logs[other]
    with pytest.raises(LogDamaged):
        await log_in(theirs, other)
    # Even its writer's key makes no log of it that begins with another run's start.
    logs[one].lines = resealed(chain_of(journal, one), logs[other].lines)
    with pytest.raises(LogDamaged, match="not the start of that run"):
        await log_in(journal, one)


async def test_h8_a_log_that_was_read_before_is_read_on_only_while_it_is_the_same() -> None:
    """What is remembered of a log was verified; what is appended since is verified against it."""
    scenario = next(each for each in CATALOGUE if each.name == "ten_rounds")
    run = await whole(scenario)
    [name] = run.heads
    log, lines = run.log, list(run.log.lines)
    log.lines = lines[:-4]
    before = await log_in(run.journal, name)
    kept_in(run.journal, before)
    log.lines = [*lines[:-4], flipped(lines[-4], 100), *lines[-3:]]
    with pytest.raises(LogDamaged) as caught:
        await log_in(run.journal, name)
    assert caught.value.line == len(lines) - 4
    log.lines = lines
    assert len(await log_in(run.journal, name)) == len(lines)


async def test_h8_a_forged_approval_runs_nothing_and_freezes_that_run_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """H8, H4: one INSERT into the table of lines; the worker says so once and goes on with the other runs."""
    paid: list[int] = []

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    def reply(items: Any) -> Any:
        return "done" if tool_outputs(items) else [function_call("pay", {"amount": 5}, call_id="c1")]

    journal = SQLiteJournal(tmp_path / "runs.db")
    agent = Agent("desk", model=ScriptedModel(reply), tools=[pay])
    forged, honest = [(await Runner.run(agent, "go", journal=journal)).run_id for _ in range(2)]
    [request] = await journal.requests(Query(run=forged))
    decided = ev.CallDecided(ev.Decision(request.call, "approve", request.digest, request.asked_at, "ann"))
    line = encode(ev.Step(request.asked_at, [decided]))
    stranger = Chain(lambda: RESEALED, "default", forged)
    for each in await journal.read(forged):
        stranger.kept(each)
    head = await journal.head(forged)

    def forge(db: Any) -> None:
        db.execute("INSERT INTO events VALUES ('default', ?, ?, ?)", forged, head, stranger.seal(line))
        db.execute("UPDATE runs SET head = head + 1, due = 0 WHERE run = ?", forged)

    await journal.write(forge)
    async with App([agent], journal) as app:
        [waiting] = [row for row in await app.inbox.list() if row.run == honest]
        await app.inbox.approve(waiting.id, by="ann")
        assert (await app.result(honest, 20)).final_output == "done"
        with pytest.raises(LogDamaged):
            await app.inbox.approve(request.id, by="ann")
        with pytest.raises(LogDamaged):
            await app.state(forged)
        async with asyncio.timeout(20):
            while forged in await journal.due():
                await asyncio.sleep(0.01)
    assert paid == [5]
    assert [record.levelname for record in caplog.records if forged in record.getMessage()] == ["ERROR"]
    report = await check(journal)
    assert {violation.run for violation in report.violations} == {forged}
    assert (report.violations[0].invariant, report.violations[0].position) == ("I8", head)
    await journal.close()


# Heads and rows ----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "change", ["head + 1", "head - 1", "-1", "NULL", "'x'", "9223372036854775807", "X'00'", "0.5"], ids=str
)
async def test_h4_a_wrong_head_hangs_nobody(kept: Kept, change: str) -> None:
    """H4, L1: the store counts other lines than it has; whoever reads or appends is told, typed, and soon."""
    [(run,)] = kept.rows("SELECT run FROM grants LIMIT 1")
    try:
        journal = kept.tampered(f"UPDATE runs SET head = {change}, due = 0 WHERE run = ?", run)
    except sqlite3.IntegrityError:
        return  # the database itself says no
    async with asyncio.timeout(20):
        forget()
        with pytest.raises(StorageError):
            await log_in(journal, run)
        with pytest.raises(StorageError):
            await Inbox(journal).tell(run, cm.AddInput("r", []))
        for door in (journal.head(run), journal.append(run, 4, [b"x"]), journal.due(), journal.requests()):
            with suppress(StorageError, LostRace):
                await door
        with suppress(StorageError, LostRace):
            await journal.claim(run, "w", 60_000)
    assert not (await looked(journal, kept.heads)).ok


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("table", ["runs", "requests", "grants"])
async def test_h8_a_row_that_was_altered_is_never_shown_as_it_is(kept: Kept, table: str) -> None:
    """H8: each column of each row that people look at; it is marked, and the others of its page are there."""
    hidden = {"runs": ("tenant", "run", "head", "epoch", "holder", "held_until", "due"), "requests": ("tenant", "id")}
    names = [each[1] for each in kept.rows(f"PRAGMA table_info({table})")]
    key = {"runs": "run", "requests": "id", "grants": "id"}[table]
    [(name,)] = kept.rows(f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1")
    count = len(kept.rows(f"SELECT 1 FROM {table}"))
    for column in set(names) - set(hidden.get(table, ("tenant", "run", "id"))):
        for value in ("forged", 77, b"\xff", None, 2**62):
            if column in ("started_at", "asked_at") and not isinstance(value, int):
                continue
            if kept.rows(f"SELECT {column} FROM {table} WHERE {key} = ?", name) == [(value,)]:
                continue
            try:
                journal = kept.tampered(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", value, name)
            except sqlite3.IntegrityError:
                continue
            rows: list[Any] = await getattr(journal, table)(Query(limit=1_000))
            await journal.close()
            assert len(rows) == count, f"{column} = {value!r} hides a row"
            [row] = [row for row in rows if getattr(row, key) == name]
            marked = row.damaged if table == "grants" else (row.status if table == "runs" else row.state) == "damaged"
            assert marked, f"{column} = {value!r} is shown as {row}"
            assert column == "run" or "forged" not in str(row)


@pytest.mark.asyncio(loop_scope="module")
async def test_l1_a_text_that_is_no_text_takes_no_other_row_with_it(kept: Kept) -> None:
    """L1: one bit on the disk makes a text that cannot be decoded; the driver raises for the whole page."""
    broken = "CAST(X'ff80' AS TEXT)"
    count = {table: len(kept.rows(f"SELECT 1 FROM {table}")) for table in ("runs", "requests")}
    [(run, request)] = kept.rows("SELECT run, id FROM requests ORDER BY asked_at, id LIMIT 1")
    cases = [("requests", "body", "id", request), ("requests", "state", "id", request), ("runs", "agent", "run", run)]
    for table, column, key, name in cases:
        journal = kept.tampered(f"UPDATE {table} SET {column} = {broken} WHERE {key} = ?", name)
        for newest in (False, True):
            pages: list[Any] = []
            after: tuple[int, str] | None = None
            while page := await getattr(journal, table)(Query(limit=2, after=after, newest=newest)):
                pages += page
                after = (page[-1].asked_at if table == "requests" else page[-1].started_at, getattr(page[-1], key))
            assert len(pages) == count[table]
            [bad] = [row for row in pages if "damaged" in (getattr(row, "state", ""), getattr(row, "status", ""))]
            assert getattr(bad, key) == name
        assert not (await looked(journal)).ok
    for column, key in (("id", "id"), ("run", "id")):
        journal = kept.tampered(f"UPDATE requests SET {column} = {broken} WHERE {key} = ?", request)
        assert len(await journal.requests(Query(limit=1_000))) >= count["requests"] - 1
        assert not (await looked(journal)).ok
    journal = kept.tampered(f"UPDATE runs SET run = {broken}, due = 0 WHERE run = ?", run)
    assert await journal.due() is not None
    await journal.stir(0.01)
    await journal.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("about", ["'{'", "X'ff'", "CAST(X'ff80' AS TEXT)", "'[1]'", "5", "'{\"a\":1e999}'"])
async def test_l1_a_notice_that_is_none_lets_those_after_it_be_told(kept: Kept, about: str) -> None:
    """L1."""
    journal = kept.tampered(
        "INSERT INTO outbox (tenant, run, topic, about) VALUES ('default', 'r', 't', '{}'), ('default', 'r', 't', '{}')"
    )
    await journal.write(lambda db: db.execute(f"UPDATE outbox SET about = {about} WHERE number = 1"))
    told = await journal.outbox()
    assert [notice.topic for notice in told if notice.topic != "damaged"] == ["t"]
    assert [notice.number for notice in told][-1] == 2
    await journal.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_l1_whatever_stands_in_any_column_nothing_untyped_comes_out(kept: Kept, sweep_size: int) -> None:
    """L1: every reader of a store, against every kind of value in every column: an answer or a `StorageError`."""
    values = [None, "", "x", "\0", b"", b"\xff\xfe", 0, -1, 2**63 - 1, -(2**63), 1.5, float("inf"), "9" * 400]
    tables = {table: [each[1] for each in kept.rows(f"PRAGMA table_info({table})")] for table in (*COLUMNS, "meta")}
    dice = random.Random(7)
    for _ in range(max(sweep_size * 3, 60)):
        table = dice.choice(list(tables))
        column = dice.choice(tables[table])
        try:
            journal = kept.tampered(f"UPDATE OR IGNORE {table} SET {column} = ?", dice.choice(values))
        except (sqlite3.IntegrityError, AssertionError, StorageError):
            continue
        async with asyncio.timeout(20):
            forget()
            run = dice.choice(kept.runs)
            doors = [
                *(journal.read(run), journal.head(run), journal.hashes(run), journal.due(), journal.stir(0.001)),
                *(journal.runs(), journal.requests(), journal.grants(), journal.outbox(), log_in(journal, run)),
                *(journal.append(run, 3, [b"x"]), journal.claim(run, "w", 1), journal.restored(), journal.erase(run)),
                check(journal),
            ]
            for door in doors:
                with suppress(StorageError, LostRace, Conflict):
                    await door
        await journal.close()


# H4 -----------------------------------------------------------------------------------------------------------------


async def test_h4_sixty_four_writers_make_one_log(tmp_path: Path) -> None:
    doors = [SQLiteJournal(tmp_path / "runs.db") for _ in range(4)]

    async def write(number: int) -> None:
        journal = doors[number % len(doors)]
        for place in range(3):
            while True:
                try:
                    await journal.append("run", await journal.head("run"), [b"%d.%d" % (number, place)])
                    break
                except LostRace:
                    continue

    async with asyncio.timeout(50):
        await asyncio.gather(*(write(number) for number in range(64)))
    lines = await doors[0].read("run")
    assert sorted(lines) == sorted(b"%d.%d" % (number, place) for number in range(64) for place in range(3))
    assert len(await doors[1].hashes("run")) == len(lines)
    await asyncio.gather(*(door.close() for door in doors))


# H6 -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["events", "requests", "runs"])
def barred(request: pytest.FixtureRequest) -> str:
    """A table that takes no change."""
    how = "UPDATE" if request.param != "events" else "INSERT"
    return f"CREATE TRIGGER barred BEFORE {how} ON {request.param} BEGIN SELECT RAISE(ABORT, 'no permission'); END"


async def moved(agent: Agent[Any], state: RunState[Any], streamed: bool) -> None:
    if not streamed:
        await Runner.run(agent, state)
        return
    async for _event in Runner.run_streamed(agent, state).stream_events():
        pass


@pytest.mark.parametrize("streamed", [False, True])
async def test_h6_a_decision_that_cannot_be_recorded_fails(tmp_path: Path, barred: str, streamed: bool) -> None:
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
        await moved(agent, state, streamed)
    assert ((await journal.read(run), await journal.requests()), paid) == (before, [])
    await journal._writer.ask(lambda db: db.execute("DROP TRIGGER barred"))
    assert (await check(journal)).ok
    await journal.close()


# H8 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="module")
async def test_h8_what_is_erased_is_gone_and_its_digests_still_prove_the_chain(kept: Kept) -> None:
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
