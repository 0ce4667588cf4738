"""What may happen to a store behind its back: the alterations, each a kind, and nothing about what must come of them.

An alteration gets a `Victim` and dice, changes something, and says what it changed.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyturn.core.seal import erased
from keyturn.journal import statements as say

from .rot_store import OTHER

Execute = Callable[..., list[Any]]
PAGE = 4_096
KEYS: dict[str, tuple[str, ...]] = {
    "runs": ("tenant", "run"),
    "events": ("tenant", "run", "seq"),
    "requests": ("tenant", "id"),
    "grants": ("tenant", "run", "id"),
    "outbox": ("number",),
    "meta": ("name",),
}
LEASE = ("epoch", "holder", "held_until", "due")
COLUMNS: dict[str, tuple[str, ...]] = {
    "runs": (*say.RUN_COLUMNS.split(", "), "head", "tenant", "seal", *LEASE),
    "requests": (*say.REQUEST_COLUMNS.split(", "), "tenant", "seal"),
    "grants": (*say.GRANT_COLUMNS.split(", "), "tenant", "seal"),
    "outbox": ("tenant", "run", "topic", "about"),
    "meta": ("name", "value"),
}
EARLIER = {
    "requests": "state = 'open', closed_at = NULL, closed_by = ''",
    "grants": "revoked = 0, uses = 0",
    "runs": "status = 'waiting'",
}
NUMBERS = {
    "head",
    "epoch",
    "held_until",
    "due",
    "started_at",
    "updated_at",
    "waiting",
    "turns",
    "asked_at",
    "expires_at",
}
NUMBERS |= {"closed_at", "uses", "revoked", "seq"}
STRANGE: tuple[Any, ...] = (0, -1, 1, 2**62, "", "x", "open", "approve", "default", "\U0001f600", "[]", '{"a":', 17)


@dataclass
class Victim:
    """A store that is altered: how its database is asked, its file if it has one, and its runs.

    `touched` are the runs that were altered; none are named where nobody can tell.
    """

    execute: Execute
    runs: list[str]
    file: Path | None = None
    touched: set[str] = field(default_factory=set[str])

    def lines(self, run: str, tenant: str = "default") -> list[bytes]:
        """The lines of a run."""
        found = self.execute("SELECT line FROM events WHERE tenant = ? AND run = ? ORDER BY seq", tenant, run)
        return [bytes(line) for (line,) in found]

    def put(self, run: str, place: int, line: Any) -> None:
        """Write another line in the place of one."""
        self.touched.add(run)
        self.execute("UPDATE events SET line = ? WHERE tenant = 'default' AND run = ? AND seq = ?", line, run, place)

    def insert(self, run: str, place: int, line: bytes) -> None:
        """Write a line where there was none."""
        self.touched.add(run)
        self.execute("INSERT INTO events (tenant, run, seq, line) VALUES ('default', ?, ?, ?)", run, place, line)

    def drop(self, run: str, place: int) -> None:
        """Take away the lines from a place on."""
        self.touched.add(run)
        self.execute("DELETE FROM events WHERE tenant = 'default' AND run = ? AND seq >= ?", run, place)

    def head(self, run: str, head: Any) -> None:
        """Say how many lines a run has."""
        self.touched.add(run)
        self.execute("UPDATE runs SET head = ? WHERE tenant = 'default' AND run = ?", head, run)


Alteration = Callable[[Victim, random.Random], str]
TAIL = "line: the last ones dropped, and counted off"
KINDS: dict[str, Alteration] = {}
FILES: dict[str, Alteration] = {}


def kind(name: str) -> Callable[[Alteration], Alteration]:
    """Put an alteration among those of any database."""

    def add(alteration: Alteration) -> Alteration:
        KINDS[name] = alteration
        return alteration

    return add


# Lines --------------------------------------------------------------------------------------------------------------


def _line(victim: Victim, dice: random.Random) -> tuple[str, int, bytes]:
    run = dice.choice(victim.runs)
    lines = victim.lines(run)
    place = dice.randrange(len(lines))
    return run, place, lines[place]


@kind("line: a bit")
def _bit_of_a_line(victim: Victim, dice: random.Random) -> str:
    run, place, line = _line(victim, dice)
    at = dice.randrange(len(line) * 8)
    made = bytearray(line)
    made[at // 8] ^= 1 << at % 8
    victim.put(run, place, bytes(made))
    return f"bit {at} of line {place} of {run[:6]}"


@kind("line: a number or a word")
def _number(victim: Victim, dice: random.Random) -> str:
    """What changes what a line says and leaves it readable."""
    run, place, line = _line(victim, dice)
    words = [(b"11", b"91"), (b"31", b"39"), (b"1", b"2"), (b"reject", b"approve"), (b"le", b"ge"), (b"ann", b"bob")]
    words += [
        (b"authenticated", b"signed"),
        (b"claimed", b"signed"),
        (b"pay", b"wir"),
        (b"ops", b"all"),
        (b":2", b":1"),
    ]
    fits = [(old, new) for old, new in words if old in line.partition(b"\t")[0]] or [(line[:1], b"[")]
    old, new = dice.choice(fits)
    victim.put(run, place, line.replace(old, new, 1))
    return f"{old!r} -> {new!r} in line {place} of {run[:6]}"


@kind("line: cut or lengthened")
def _cut_line(victim: Victim, dice: random.Random) -> str:
    run, place, line = _line(victim, dice)
    at = dice.randrange(len(line))
    victim.put(run, place, dice.choice((line[:at], line + line[at:], b"", line.partition(b"\t")[0], line + b"\n{}")))
    return f"line {place} of {run[:6]} at {at}"


@kind("line: swapped, copied over another, doubled")
def _swap(victim: Victim, dice: random.Random) -> str:
    run = dice.choice(victim.runs)
    lines = victim.lines(run)
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    way = dice.choice(("swap", "copy", "double", "append"))
    if way in ("swap", "copy"):
        victim.put(run, one, lines[other])
    if way == "swap":
        victim.put(run, other, lines[one])
    if way in ("double", "append"):
        kept = [*lines[: one + 1], *lines[one:]] if way == "double" else [*lines, lines[one]]
        _rewrite(victim, run, kept)
    return f"{way} {one} {other} of {run[:6]}"


def _rewrite(victim: Victim, run: str, lines: Sequence[bytes]) -> None:
    victim.drop(run, 0)
    for place, line in enumerate(lines):
        victim.insert(run, place, line)
    victim.head(run, len(lines))


@kind("line: dropped")
def _drop(victim: Victim, dice: random.Random) -> str:
    run, place, _ = _line(victim, dice)
    lines = victim.lines(run)
    way = dice.choice(("hole", "moved up", "tail", "all"))
    if way == "hole":
        victim.execute("DELETE FROM events WHERE tenant = 'default' AND run = ? AND seq = ?", run, place)
    elif way == "moved up":
        place = min(place, len(lines) - 2)  # the last one is another kind
        _rewrite(victim, run, [*lines[:place], *lines[place + 1 :]])
    elif way == "all":
        victim.drop(run, 0)
    else:
        victim.drop(run, place)
    return f"{way} from {place} of {run[:6]}"


@kind(TAIL)
def _tail(victim: Victim, dice: random.Random) -> str:
    """A shorter log is a good one: only a head that is kept elsewhere tells, and what was done in it is done again."""
    run, place, _ = _line(victim, dice)
    victim.drop(run, place)
    victim.head(run, place)
    return f"from {place} of {run[:6]}"


@kind("line: another run's or tenant's")
def _foreign(victim: Victim, dice: random.Random) -> str:
    run, other = dice.sample(victim.runs, 2)
    found = victim.execute("SELECT run FROM runs WHERE tenant = ? ORDER BY run", OTHER)
    tenant, name = dice.choice([("default", other), (OTHER, dice.choice(found)[0])])
    theirs, mine = victim.lines(name, tenant), victim.lines(run)
    way = dice.choice(("line", "tail", "log", "appended"))
    place = dice.randrange(min(len(theirs), len(mine)))
    if way == "line":
        victim.put(run, place, theirs[place])
    else:
        kept = {"tail": mine[:place] + theirs[place:], "log": theirs, "appended": mine + theirs[place:]}[way]
        _rewrite(victim, run, kept)
    return f"{way} {place} of {tenant} {name[:6]} in {run[:6]}"


@kind("line: erased, or another type")
def _erased(victim: Victim, dice: random.Random) -> str:
    run, place, line = _line(victim, dice)
    made = erased(line)
    if victim.file is not None:
        made = dice.choice((made, line.decode(), 7, 1.5))  # a column of SQLite's holds anything
    victim.put(run, place, made)
    return f"line {place} of {run[:6]}: {made!r:.20}"


# Rows ---------------------------------------------------------------------------------------------------------------


def _row(victim: Victim, dice: random.Random, table: str) -> tuple[str, tuple[Any, ...]]:
    keys = KEYS[table]
    mine = " WHERE tenant = 'default'" if "tenant" in keys else ""
    order = ", ".join(keys)
    found = victim.execute(f"SELECT {order} FROM {table}{mine} ORDER BY {order}")
    where, key = " AND ".join(f"{key} = ?" for key in keys), tuple(dice.choice(found))
    if table in ("runs", "events", "requests", "grants"):
        victim.touched |= {run for (run,) in victim.execute(f"SELECT run FROM {table} WHERE {where}", *key)}
    return where, key


def _other_value(victim: Victim, dice: random.Random, table: str, column: str, now: Any) -> Any:
    """Another value of a column: like it was, or like nothing that was ever there."""
    if isinstance(now, str) and now and dice.random() < 0.4:
        at = dice.randrange(len(now))
        return now[:at] + dice.choice('0189afxz{}"') + now[at + 1 :]
    if isinstance(now, int) and dice.random() < 0.4:
        return now + dice.choice((1, -1, 1_000_000))
    found = victim.execute(f"SELECT DISTINCT {column} FROM {table}")
    others = [value for (value,) in found if value != now]
    if others and dice.random() < 0.5:
        return dice.choice(others)
    strange = [value for value in STRANGE if victim.file or isinstance(value, int) is (column in NUMBERS)]
    return dice.choice([value for value in strange if value != now])


def _column(table: str) -> Alteration:
    def alter(victim: Victim, dice: random.Random) -> str:
        column = dice.choice(COLUMNS[table])
        where, key = _row(victim, dice, table)
        now = victim.execute(f"SELECT {column} FROM {table} WHERE {where}", *key)[0][0]
        other = _other_value(victim, dice, table, column, now)
        if column in KEYS[table]:  # the key of another row is taken
            other = f"{other}{dice.randrange(1_000)}"
        victim.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", other, *key)
        return f"{table}.{column} of {key[-1]!s:.8}: {now!r:.20} -> {other!r:.20}"

    return alter


for _table in COLUMNS:
    KINDS[f"{_table}: a column"] = _column(_table)


@kind("rows: NULL")
def _null(victim: Victim, dice: random.Random) -> str:
    table = dice.choice([*COLUMNS, "events"])
    columns = {"events": ("line",)}.get(table) or COLUMNS[table]
    column = dice.choice([column for column in columns if column not in KEYS[table]])
    where, key = _row(victim, dice, table)
    victim.execute(f"UPDATE {table} SET {column} = NULL WHERE {where}", *key)
    return f"{table}.{column} of {key[-1]!s:.8}"


@kind("rows: dropped")
def _drop_row(victim: Victim, dice: random.Random) -> str:
    table = dice.choice(("runs", "requests", "grants", "meta"))
    where, key = _row(victim, dice, table)
    victim.execute(f"DELETE FROM {table} WHERE {where}", *key)
    return f"{table} {key[-1]!s:.8}"


@kind("rows: another's in its place, an earlier one, one more")
def _another(victim: Victim, dice: random.Random) -> str:
    table = dice.choice(("requests", "grants", "runs"))
    where, key = _row(victim, dice, table)
    where, other = _row(victim, dice, table)
    columns = [column for column in COLUMNS[table] if column not in KEYS[table]]
    way = dice.choice(("another's", "earlier", "more"))
    if way == "earlier":
        victim.execute(f"UPDATE {table} SET {EARLIER[table]} WHERE {where}", *key)
    elif way == "more":
        names = ", ".join([*KEYS[table], *columns])
        made = [f"{name} || '1'" if name == KEYS[table][-1] else name for name in (*KEYS[table], *columns)]
        victim.execute(f"INSERT INTO {table} ({names}) SELECT {', '.join(made)} FROM {table} WHERE {where}", *key)
    else:
        sets = ", ".join(f"{name} = (SELECT {name} FROM {table} WHERE {where})" for name in columns)
        victim.execute(f"UPDATE {table} SET {sets} WHERE {where}", *[part for _ in columns for part in other], *key)
    return f"{way}: {table} {key[-1]!s:.8} {other[-1]!s:.8}"


@kind("rows: a run in another tenant")
def _moved(victim: Victim, dice: random.Random) -> str:
    run = dice.choice(victim.runs)
    victim.touched.add(run)
    tables = dice.choice((("runs", "events", "requests", "grants"), ("requests",), ("events",), ("runs",)))
    for table in tables:
        victim.execute(f"UPDATE {table} SET tenant = ? WHERE tenant = 'default' AND run = ?", OTHER, run)
    return f"{run[:6]}: {', '.join(tables)}"


@kind("runs: a wrong head")
def _wrong_head(victim: Victim, dice: random.Random) -> str:
    run = dice.choice(victim.runs)
    count = len(victim.lines(run))
    others = [head for head in (0, 1, count - 1, count + 1, -1, 2**62) if head != count]
    head = dice.choice([*others, "many", None] if victim.file is not None else others)
    victim.head(run, count + 1 if head is None else head)
    return f"{head!r} of {count} in {run[:6]}"


# Files --------------------------------------------------------------------------------------------------------------


def _on_bytes(name: str, suffix: str, alter: Callable[[bytearray, random.Random], str]) -> None:
    def on_file(victim: Victim, dice: random.Random) -> str:
        assert victim.file is not None
        path = victim.file.with_name(victim.file.name + suffix)
        content = bytearray(path.read_bytes())
        said = alter(content, dice)
        path.write_bytes(content)
        return said

    FILES[name] = on_file


def _bit(content: bytearray, dice: random.Random) -> str:
    at = dice.randrange(len(content))
    content[at] ^= 1 << dice.randrange(8)
    return f"a bit of byte {at}"


def _bytes(content: bytearray, dice: random.Random) -> str:
    at, count = dice.randrange(len(content)), dice.choice((1, 2, 8, 64))
    content[at : at + count] = dice.choice((bytes(count), dice.randbytes(count)))[: len(content) - at]
    return f"{count} bytes at {at}"


def _pages(content: bytearray, dice: random.Random) -> str:
    count = len(content) // PAGE
    one, other = dice.randrange(count) * PAGE, dice.randrange(count) * PAGE
    way = dice.choice(("zero", "copy", "swap", "noise"))
    page, theirs = bytes(content[one : one + PAGE]), bytes(content[other : other + PAGE])
    content[one : one + PAGE] = {"zero": bytes(PAGE), "noise": dice.randbytes(PAGE)}.get(way, theirs)
    if way == "swap":
        content[other : other + PAGE] = page
    return f"{way} page {one // PAGE} {other // PAGE}"


def _cut(content: bytearray, dice: random.Random) -> str:
    at = dice.randrange(len(content))
    at -= at % PAGE if dice.random() < 0.5 else 0
    del content[at:]
    return f"cut at {at}"


for _name, _alter in (("a bit", _bit), ("bytes", _bytes), ("pages", _pages), ("cut", _cut)):
    _on_bytes(f"file: {_name}", "", _alter)
    _on_bytes(f"WAL: {_name}", "-wal", _alter)


def sqlite_victim(file: Path, runs: list[str]) -> tuple[sqlite3.Connection, Victim]:
    """A SQLite file that is altered by statements; nothing that its schema forbids is forbidden here."""
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")

    def execute(sql: str, *values: Any) -> list[Any]:
        return db.execute(sql, values).fetchall()

    return db, Victim(execute, runs, file)


def without_rules(file: Path) -> None:
    """Let every column of a file be NULL, but the keys."""
    with sqlite3.connect(file, isolation_level=None) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")
    db.close()
