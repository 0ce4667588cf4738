"""Whoever reads a store: nothing altered is believed, nothing hangs, and nothing untyped comes out."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, Conflict, Grant, Inbox, MemoryJournal, Runner, RunState, function_tool
from keyturn.audit.checker import check
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import encode
from keyturn.core.errors import LogDamaged, StorageError
from keyturn.core.seal import Chain, body_of, erased
from keyturn.engine.run.log_cache import forget, kept_in, log_in
from keyturn.engine.run.open_run import chain_of
from keyturn.journal.base import LostRace
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import tool_outputs
from keyturn.support.keys import own_ring
from keyturn.testing import ScriptedModel, assistant_message, function_call
from tests.scenarios import CATALOGUE
from tests.waiting import until

from .tampered import COLUMNS, OPERATIONS, Kept, looked, resealed, whole

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
async def test_no_changed_line_is_believed_by_anybody_who_reads(what: str) -> None:
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


async def test_a_log_of_another_run_or_tenant_is_not_read() -> None:
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


async def test_a_log_that_was_read_before_is_read_on_only_while_it_is_the_same() -> None:
    """What is remembered of a log was verified; what is appended since is verified against it."""
    scenario = next(each for each in CATALOGUE if each.name == "ten_rounds")
    run = await whole(scenario)
    [name] = run.heads
    log, lines = run.log, list(run.log.lines)
    log.lines = lines[:-4]
    forget()  # else a log that is shorter than before is damaged
    before = await log_in(run.journal, name)
    kept_in(run.journal, before)
    log.lines = [*lines[:-4], flipped(lines[-4], 100), *lines[-3:]]
    with pytest.raises(LogDamaged) as caught:
        await log_in(run.journal, name)
    assert caught.value.line == len(lines) - 4
    log.lines = lines
    assert len(await log_in(run.journal, name)) == len(lines)


async def test_a_forged_approval_runs_nothing_and_freezes_that_run_alone(
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
        await app.inbox.approve(waiting, by="ann")
        assert (await app.result(honest, 20)).final_output == "done"
        with pytest.raises(LogDamaged):
            await app.inbox.approve(request, by="ann")
        with pytest.raises(LogDamaged):
            await app.state(forged)

        async def left_alone() -> bool:
            return forged not in await journal.due()

        await until(left_alone)
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
async def test_a_wrong_head_hangs_nobody(kept: Kept, change: str) -> None:
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
async def test_a_row_that_was_altered_is_never_shown_as_it_is(kept: Kept, table: str) -> None:
    """H8: each column of each row that people look at; it is marked, and the others of its page are there."""
    hidden = {
        "runs": (
            *("tenant", "run", "head", "epoch", "holder", "held_until", "due", "session", "place", "takers", "needs"),
            "priority",
        ),
        "requests": ("tenant", "id"),
    }
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
async def test_a_text_that_is_no_text_takes_no_other_row_with_it(kept: Kept) -> None:
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
    await journal.wait_until_due(0.01)
    await journal.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("about", ["'{'", "X'ff'", "CAST(X'ff80' AS TEXT)", "'[1]'", "5", "'{\"a\":1e999}'"])
async def test_a_notice_that_is_none_lets_those_after_it_be_told(kept: Kept, about: str) -> None:
    """L1."""
    journal = kept.tampered(
        "INSERT INTO outbox (tenant, run, topic, about) VALUES ('default', 'r', 'x', '{}'), ('default', 'r', 't', '{}')"
    )
    await journal.write(lambda db: db.execute(f"UPDATE outbox SET about = {about} WHERE topic = 'x'"))
    told = await journal.outbox()
    assert [notice.topic for notice in told[-2:] if notice.topic != "damaged"] == ["t"]
    assert len({notice.number for notice in told}) == len(told) > 2
    await journal.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_whatever_stands_in_any_column_nothing_untyped_comes_out(kept: Kept, sweep_size: int) -> None:
    """L1: every reader of a store, against every kind of value in every column: an answer or a `StorageError`."""
    values = [None, "", "x", "\0", b"", b"\xff\xfe", 0, -1, 2**63 - 1, -(2**63), 1.5, float("inf"), "9" * 400]
    tables = {table: [each[1] for each in kept.rows(f"PRAGMA table_info({table})")] for table in (*COLUMNS, "meta")}
    dice = random.Random(7)
    for _ in range(sweep_size * 4):
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
                *(
                    journal.read(run),
                    journal.head(run),
                    journal.hashes(run),
                    journal.due(),
                    journal.wait_until_due(0.001),
                ),
                *(journal.runs(), journal.requests(), journal.grants(), journal.outbox(), log_in(journal, run)),
                *(journal.append(run, 3, [b"x"]), journal.claim(run, "w", 1), journal.restored(), journal.erase(run)),
                check(journal),
            ]
            for door in doors:
                with suppress(StorageError, LostRace, Conflict):
                    await door
        await journal.close()


@pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)
async def test_every_database_marks_what_was_altered_in_it(store: Any) -> None:
    """H8, L1: the same on both: each column of a row, each way to spoil a line, the head."""

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        return "paid"

    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"amount": 1}, call_id="c1")]] * 9), tools=[pay])
    runs = [(await Runner.run(agent, "go", journal=store)).run_id for _ in range(3)]
    state = await RunState.load(store, runs[0], agent)
    state.approve(state.get_interruptions()[0], grant=Grant(uses=1), by="ada")
    await Runner.run(agent, state)

    async def sql(statement: str, *values: Any) -> None:
        await store.write(lambda db: db.execute(statement, *values))

    [request] = await store.requests(Query(run=runs[1], limit=1))
    columns = ("run", "call", "kind", "tool", "agent", "digest", "reason", "risk", "body", "state", "closed_by", "seal")
    for column in columns:
        was = f"SELECT {column} FROM requests WHERE id = ?"
        before = await store.whole(lambda db, was=was: db.execute(was, request.id))
        await sql(f"UPDATE requests SET {column} = 'forged' WHERE id = ?", request.id)
        rows = {row.id: row for row in await store.requests()}
        assert rows[request.id].state == "damaged", column
        assert [row.state for row in rows.values()].count("damaged") == 1
        await sql(f"UPDATE requests SET {column} = ? WHERE id = ?", before[0][0], request.id)
    assert (await store.requests(Query(id=request.id)))[0] == request
    await sql("UPDATE runs SET status = 'finished' WHERE run = ?", runs[2])
    await sql("UPDATE grants SET uses = 0")
    assert [row.status for row in await store.runs(Query(run=runs[2]))] == ["damaged"]
    assert [row.damaged for row in await store.grants()] == [True]
    await sql("UPDATE requests SET body = 'forged' WHERE id = ?", request.id)
    await Inbox(store).tell(runs[1], cm.Cancel("ann", "enough"))
    [closed] = await store.requests(Query(id=request.id))
    assert closed.state == "damaged", "an altered row is not made good by being closed"

    lines = await store.read(runs[2])
    for place, line in enumerate(lines):
        for bad in (flipped(line, 90), erased(line), body_of(line), b"", lines[place - 1]):
            await sql("UPDATE events SET line = ? WHERE run = ? AND seq = ?", bad, runs[2], place)
            forget()
            with pytest.raises(LogDamaged) as caught:
                await log_in(store, runs[2])
            assert caught.value.line == place
        await sql("UPDATE events SET line = ? WHERE run = ? AND seq = ?", line, runs[2], place)
    for head in (0, 1, 99, -1, 2**62):
        await sql("UPDATE runs SET head = ? WHERE run = ?", head, runs[2])
        forget()
        async with asyncio.timeout(20):
            with pytest.raises(LogDamaged):
                await log_in(store, runs[2])
            with suppress(LostRace, StorageError):
                await store.append(runs[2], len(lines), [b"x"])
