"""What was tried, by kind, and what was found: the table that a trial prints, and nothing about how it tries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_SHOWN = 20
# With more than so many things to meet, what was met stands in one cell.
MOST_COLUMNS = 4


@dataclass
class Row:
    """One kind: how many trials of how many points, what they met, and how often a promise was broken."""

    tried: int = 0
    points: int = 0
    met: Counter[str] = field(default_factory=Counter[str])
    violations: int = 0


@dataclass
class Tally:
    """All that a series of trials came to."""

    title: str
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    violations: list[str] = field(default_factory=list[str])

    def row(self, kind: str) -> Row:
        """The row of a kind."""
        return self.rows.setdefault(kind, Row())

    def add(self, kind: str, met: dict[str, int], violations: list[str], trial: str) -> None:
        """Count one trial; `trial` is how it can be tried again."""
        row = self.row(kind)
        row.tried += 1
        row.met.update(met)
        row.violations += bool(violations)
        self.violations += [f"{trial}: {each}" for each in violations]

    def add_all(self, lines: Iterable[dict[str, Any]]) -> list[str]:
        """Count what a worker says of its trials; the violations among it."""
        before = len(self.violations)
        for line in lines:
            self.add(**line)
        return self.violations[before:]

    @property
    def tried(self) -> int:
        """How many trials there were."""
        return sum(row.tried for row in self.rows.values())

    @property
    def broken(self) -> int:
        """In how many of them a promise was broken."""
        return sum(row.violations for row in self.rows.values())

    def text(self, *notes: str) -> str:
        """The table, the notes below it, and the first violations with what tries each again."""
        met = sorted({name for row in self.rows.values() for name in row.met})
        wide = len(met) > MOST_COLUMNS
        head = ["kind", "tried", *(["met"] if wide else met), "violations"]
        total = Row(self.tried, 0, sum((row.met for row in self.rows.values()), Counter[str]()), self.broken)
        lines = [
            [kind, f"{row.tried:,}", *_cells(row.met, met, wide=wide), f"{row.violations:,}"]
            for kind, row in {**self.rows, "all": total}.items()
        ]
        shown = [f"  {each}" for each in self.violations[:MOST_SHOWN]]
        left = len(self.violations) - len(shown)
        more = [f"  and {left} more"] if left > 0 else []
        return "\n".join(
            [self.title, "", grid(head, lines), "", *notes, *(["Violations:"] if shown else []), *shown, *more]
        )

    def save(self, path: Path) -> None:
        """Write it down as data, for the page that publishes it."""
        rows = {
            kind: {"tried": row.tried, "points": row.points, "met": dict(row.met), "violations": row.violations}
            for kind, row in self.rows.items()
        }
        path.write_text(json.dumps({"title": self.title, "rows": rows, "violations": self.violations}, indent=1) + "\n")


def _cells(met: Counter[str], names: list[str], *, wide: bool) -> list[str]:
    if not wide:
        return [f"{met[name]:,}" for name in names]
    return [", ".join(f"{met[name]:,} {name}" for name in names if met[name])]


def grid(head: list[str], lines: list[list[str]]) -> str:
    """A Markdown table with its columns aligned."""
    rows = [head, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    aligned = [
        " | ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    rule = " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(f"| {line} |" for line in [aligned[0], rule, *aligned[1:]])


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Put a text, which has both comments, where the last one stands in a page of the manual."""
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{page} lacks the two comments between which the counts stand: {begin} {end}")
    page.write_text(before + text + after, encoding="utf-8")
