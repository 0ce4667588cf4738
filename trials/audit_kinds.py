"""What somebody who has an export, and no key, can do to it: bytes, rows, whole runs, and histories made anew.

Each alteration returns the altered rows and where it did it: the rows of the file and the runs that an honest verifier
must name. `Evidence` is what was exported, with what its holder may mix in: an older export, one of another tenant.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from keyturn.audit.evidence.chain import PublicChain
from keyturn.audit.evidence.records import LogLine, RunHead, Statement, encode, read_row


@dataclass
class Evidence:
    """One export, row by row, with an older one of the same store and one of another tenant."""

    rows: list[bytes]
    older: list[bytes]
    foreign: list[bytes]
    checkpoint: Path
    public: Path
    spans: dict[str, range] = field(default_factory=dict[str, range])

    def __post_init__(self) -> None:
        begin: int | None = None
        for place, raw in enumerate(self.rows):
            row = read_row(raw)
            begin = place if begin is None and isinstance(row, LogLine | RunHead) else begin
            if isinstance(row, RunHead) and begin is not None:
                self.spans[row.run] = range(begin, place + 1)
                begin = None


@dataclass
class Altered:
    """Altered rows, and where: `rows` counts from 1 in the altered file; any of these runs, or rows, must be named."""

    rows: list[bytes]
    at: set[int]
    runs: set[str]


Alteration = Callable[[Evidence, random.Random], Altered]


def _line(evidence: Evidence, dice: random.Random, least: int = 1) -> tuple[str, int]:
    """A run, and the place of a row of one of its lines that has `least` more lines behind it or is the last of few."""
    runs = [run for run, span in evidence.spans.items() if len(span) > least + 1]
    run = dice.choice(runs)
    span = evidence.spans[run]
    return run, dice.randrange(span.start, span.stop - 1 - (least - 1))


def _near(place: int) -> set[int]:
    return {place, place + 1, place + 2}


def flip(evidence: Evidence, dice: random.Random) -> Altered:
    rows = evidence.rows.copy()
    place = dice.randrange(len(rows))
    changed = bytearray(rows[place])
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    rows[place] = bytes(changed)
    return Altered(rows, _near(place), set())


def drop_byte(evidence: Evidence, dice: random.Random) -> Altered:
    rows = evidence.rows.copy()
    place = dice.randrange(len(rows))
    at = dice.randrange(len(rows[place]))
    rows[place] = rows[place][:at] + rows[place][at + 1 :]
    return Altered(rows, _near(place), set())


def add_byte(evidence: Evidence, dice: random.Random) -> Altered:
    rows = evidence.rows.copy()
    place = dice.randrange(len(rows))
    at = dice.randrange(len(rows[place]) + 1)
    rows[place] = rows[place][:at] + bytes([dice.choice(b' \t\n"{},x\x00\xff')]) + rows[place][at:]
    return Altered(rows, _near(place), set())


def drop_line(evidence: Evidence, dice: random.Random) -> Altered:
    run, place = _line(evidence, dice)
    return Altered([*evidence.rows[:place], *evidence.rows[place + 1 :]], set(), {run})


def drop_block(evidence: Evidence, dice: random.Random) -> Altered:
    run, place = _line(evidence, dice, 2)
    return Altered([*evidence.rows[:place], *evidence.rows[place + 2 :]], set(), {run})


def swap_lines(evidence: Evidence, dice: random.Random) -> Altered:
    run, place = _line(evidence, dice, 2)
    rows = evidence.rows.copy()
    rows[place], rows[place + 1] = rows[place + 1], rows[place]
    return Altered(rows, set(), {run})


def double_line(evidence: Evidence, dice: random.Random) -> Altered:
    run, place = _line(evidence, dice)
    return Altered([*evidence.rows[: place + 1], *evidence.rows[place:]], set(), {run})


def move_line(evidence: Evidence, dice: random.Random) -> Altered:
    """A line goes to another run as it is."""
    run, place = _line(evidence, dice)
    other, target = _line(evidence, dice)
    if other == run:
        return swap_lines(evidence, dice)
    rows = [*evidence.rows[:place], *evidence.rows[place + 1 :]]
    rows.insert(target if target < place else target - 1, evidence.rows[place])
    return Altered(rows, set(), {run, other})


def foreign_line(evidence: Evidence, dice: random.Random) -> Altered:
    """A line of another tenant's export takes the place of one, under its name."""
    run, place = _line(evidence, dice)
    theirs = [row for row in map(read_row, evidence.foreign) if isinstance(row, LogLine)]
    row = read_row(evidence.rows[place])
    assert isinstance(row, LogLine)
    taken = dice.choice(theirs)
    rows = evidence.rows.copy()
    rows[place] = encode(LogLine(run, row.n, taken.hash, taken.seal, taken.line))
    return Altered(rows, set(), {run})


def forged_line(evidence: Evidence, dice: random.Random) -> Altered:
    """A line is added at the end of a run, with a head that follows."""
    run, _ = _line(evidence, dice)
    return _remade(evidence, run, lambda lines: [*lines, lines[-1]], whole=False)


def changed_word(evidence: Evidence, dice: random.Random) -> Altered:
    """A line says something else; its hash stays."""
    run, place = _line(evidence, dice)
    row = read_row(evidence.rows[place])
    assert isinstance(row, LogLine)
    assert row.line is not None
    rows = evidence.rows.copy()
    rows[place] = encode(LogLine(run, row.n, row.hash, row.seal, _other(row.line)))
    return Altered(rows, {place + 1}, {run})


def hidden_line(evidence: Evidence, dice: random.Random) -> Altered:
    """A line is shown by its digest alone, as erased or as withheld: its hash still fits."""
    run, place = _line(evidence, dice)
    row = read_row(evidence.rows[place])
    assert isinstance(row, LogLine)
    assert row.line is not None
    digest = sha256(row.line.encode()).hexdigest()
    as_erased = dice.random() < 0.5
    made = LogLine(run, row.n, row.hash, row.seal, None, digest if as_erased else None, None if as_erased else digest)
    rows = evidence.rows.copy()
    rows[place] = encode(made)
    return Altered(rows, set(), {run})


def cut_run(evidence: Evidence, dice: random.Random) -> Altered:
    """The last lines of a run go; its head stays."""
    run, place = _line(evidence, dice)
    span = evidence.spans[run]
    return Altered([*evidence.rows[:place], *evidence.rows[span.stop - 1 :]], set(), {run})


def cut_run_whole(evidence: Evidence, dice: random.Random) -> Altered:
    """The last lines of a run go, and all that counts them is made anew."""
    run, place = _line(evidence, dice)
    keep = place - evidence.spans[run].start
    return _remade(evidence, run, lambda lines: lines[:keep], whole=True)


def rewritten(evidence: Evidence, dice: random.Random) -> Altered:
    """A line says something else, and every hash behind it, the head and the statement are made anew."""
    run, place = _line(evidence, dice)
    at = place - evidence.spans[run].start

    def change(lines: list[LogLine]) -> list[LogLine]:
        old = lines[at]
        assert old.line is not None
        return [*lines[:at], LogLine(old.run, old.n, "", old.seal, _other(old.line)), *lines[at + 1 :]]

    return _remade(evidence, run, change, whole=True)


def run_gone(evidence: Evidence, dice: random.Random) -> Altered:
    """A run goes with its head, and nothing else is touched."""
    run = dice.choice(list(evidence.spans))
    span = evidence.spans[run]
    rows = [*evidence.rows[: span.start], *evidence.rows[span.stop :]]
    return Altered(rows, _near(span.start), {run})


def run_gone_whole(evidence: Evidence, dice: random.Random) -> Altered:
    """A run goes, and the numbers, the statement and its counts are made anew."""
    run = dice.choice(list(evidence.spans))
    span = evidence.spans[run]
    rows = _restated([*evidence.rows[: span.start], *evidence.rows[span.stop :]])
    return Altered(rows, set(), {run})


def runs_swapped(evidence: Evidence, dice: random.Random) -> Altered:
    """Two runs change their places."""
    first, second = sorted(dice.sample(list(evidence.spans), 2), key=lambda run: evidence.spans[run].start)
    one, two = evidence.spans[first], evidence.spans[second]
    rows = evidence.rows
    between = rows[one.stop : two.start]
    made = [*rows[: one.start], *rows[two.start : two.stop], *between, *rows[one.start : one.stop], *rows[two.stop :]]
    return Altered(
        made, set(), {first, second} | {run for run, span in evidence.spans.items() if span.start > one.start}
    )


def run_twice(evidence: Evidence, dice: random.Random) -> Altered:
    run = dice.choice(list(evidence.spans))
    span = evidence.spans[run]
    rows = [*evidence.rows[: span.stop], *evidence.rows[span.start :]]
    return Altered(rows, set(), {run})


def tail(evidence: Evidence, dice: random.Random) -> Altered:
    """The end of the file goes."""
    keep = dice.randrange(1, len(evidence.rows))
    return Altered(evidence.rows[:keep], _near(keep), set(evidence.spans))


def replayed(evidence: Evidence, _dice: random.Random) -> Altered:
    """An older export stands in the place of the newer one: good by itself, and behind what was signed since."""
    return Altered(evidence.older, set(), set(evidence.spans))


def old_statement(evidence: Evidence, _dice: random.Random) -> Altered:
    """The statement and the signature are those of an older export."""
    rows = [*evidence.rows[:-2], *evidence.older[-2:]]
    return Altered(rows, {len(rows) - 1, len(rows)}, set())


def old_signature(evidence: Evidence, _dice: random.Random) -> Altered:
    rows = [*evidence.rows[:-1], evidence.older[-1]]
    return Altered(rows, {len(rows)}, set())


KINDS: dict[str, Alteration] = {
    made.__name__.replace("_", " "): made
    for made in (
        *(flip, drop_byte, add_byte, drop_line, drop_block, swap_lines, double_line, move_line, foreign_line),
        *(forged_line, changed_word, hidden_line, cut_run, cut_run_whole, rewritten, run_gone, run_gone_whole),
        *(runs_swapped, run_twice, tail, replayed, old_statement, old_signature),
    )
}


def _other(text: str) -> str:
    """A line that says something else, as whoever edits a verdict would."""
    told: dict[str, Any] = json.loads(text)
    told["at"] += 1
    return json.dumps(told, separators=(",", ":")).replace("approve", "reject")


def _remade(evidence: Evidence, run: str, change: Callable[[list[LogLine]], list[LogLine]], *, whole: bool) -> Altered:
    """Make a run anew with other lines: hashes and head, and with `whole` all that is said of them at the end."""
    span = evidence.spans[run]
    found = [row for row in map(read_row, evidence.rows[span.start : span.stop]) if isinstance(row, LogLine)]
    chain = PublicChain("default", run)
    made: list[bytes] = []
    for place, old in enumerate(change(found)):
        text = old.line or ""
        chain.add(sha256(text.encode()).digest(), old.seal)
        made.append(encode(LogLine(run, place, chain.head.hex(), old.seal, text)))
    head = read_row(evidence.rows[span.stop - 1])
    assert isinstance(head, RunHead)
    made.append(encode(RunHead(run, head.number, chain.count, chain.head.hex())))
    rows = [*evidence.rows[: span.start], *made, *evidence.rows[span.stop :]]
    return Altered(_restated(rows) if whole else rows, set(), {run})


def _restated(rows: list[bytes]) -> list[bytes]:
    """Number the runs anew and make the statement that fits; the signature is the old one."""
    number = lines = 0
    heads = sha256()
    made: list[bytes] = []
    for raw in rows:
        row = read_row(raw)
        if isinstance(row, RunHead):
            kept = encode(RunHead(row.run, number, row.lines, row.head))
            heads.update(kept + b"\n")
            number += 1
            lines += row.lines
        elif isinstance(row, Statement):
            given = (row.what, row.tenant, row.store, row.at, number, lines, heads.hexdigest(), row.key, row.follows)
            kept = encode(Statement(*given))
        else:
            kept = raw
        made.append(kept)
    return made
