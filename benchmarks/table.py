"""The table as text: medians with what Keyturn must reach, then ratios, growth and what could not be measured."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence

from .measuring import Measured
from .rows import ROWS, Row
from .subjects import SUBJECTS

OURS = "keyturn"
FLOOR = "floor"
LAW = 1.05  # the exponent of a run's total cost over its turns may not exceed this

HEADER = """\
Medians of {repeat} (fewer where one takes long), each from a fresh process, subjects interleaved, side effects counted.
Absolute figures are of this machine in this hour and promise nothing: the ratios are what counts. Lower is better.
{python}: {versions}."""


def number(value: float | None) -> str:
    """Three digits are enough."""
    if value is None:
        return "-"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}" if value else "0"


def mark(value: float | None, row: Row) -> str:
    """Does Keyturn reach what it must, or even what it aims at?"""
    if value is None or row.must is None or row.aim is None:
        return "-"
    if value <= row.aim:
        return "✓✓ aim"
    return "✓ must" if value <= row.must else f"✗ {value / row.must:.1f}x must"


def ratio(value: float | None, base: float | None) -> str:
    """How many times the base."""
    return f"{number(value / base)}x" if value is not None and base else "-"


def grid(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A markdown table with its columns aligned."""
    rows = [list(head), *map(list, lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    aligned = [
        [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in [aligned[0], rule, *aligned[1:]])


def medians(measured: Measured, rows: Sequence[Row], subjects: Sequence[str]) -> str:
    """The table of performance: one line a row."""
    lines = []
    for row in rows:
        figures = {subject: measured.median(subject, row) for subject in subjects}
        limits = ["-" if limit is None else f"{limit:g}" for limit in (row.must, row.aim)]
        lines.append(
            [row.title, *(number(figures[subject]) for subject in subjects), *limits, mark(figures.get(OURS), row)]
        )
    return grid(["median", *subjects, "must", "aim", "met"], lines)


def ratios(measured: Measured, rows: Sequence[Row], subjects: Sequence[str], base: str) -> str:
    """The same, as multiples of one subject's figures."""
    others = [subject for subject in subjects if subject != base]
    lines = [
        [row.title, *(ratio(measured.median(subject, row), measured.median(base, row)) for subject in others)]
        for row in rows
    ]
    return grid([f"times {base}", *others], lines)


def exponent(measured: Measured, subject: str, few: Row, many: Row, *, per_turn: bool) -> float | None:
    """How a total grows from one row to the other: 1 is in step with n, 2 is with its square."""
    low, high = measured.median(subject, few), measured.median(subject, many)
    if not low or not high:
        return None
    return math.log(high / low) / math.log(many.params["n"] / few.params["n"]) + per_turn


def growth(measured: Measured, subjects: Sequence[str]) -> str:
    """The exponents, for the pairs of rows that were measured."""
    by_key = {row.key: row for row in ROWS}
    pairs = [
        ("total of a run, 20 to 1,000 turns", "turns-20", "turns-1000", True),
        ("total of a conversation, 200 to 1,000 rounds", "rounds-200", "rounds-1000", False),
        ("its text written, 200 to 1,000 rounds", "rounds-200-mb", "rounds-1000-mb", False),
    ]
    lines = []
    for title, few, many, per_turn in pairs:
        found = [exponent(measured, one, by_key[few], by_key[many], per_turn=per_turn) for one in subjects]
        if any(value is not None for value in found):
            law = f"{LAW} for {OURS}" if per_turn else "the text's, or less"
            lines.append([title, *("-" if value is None else f"{value:.2f}" for value in found), law])
    return grid(["growth, exponent", *subjects, "at most"], lines) if lines else ""


def report(measured: Measured, rows: Sequence[Row], subjects: Sequence[str], repeat: int) -> str:
    """Everything that is printed."""
    versions = ", ".join(
        f"{name} ({SUBJECTS[name].package} {measured.versions[name] or 'not installed: this tree'})"
        for name in subjects
        if name in measured.versions
    )
    python = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}"
    parts = [HEADER.format(repeat=repeat, python=python, versions=versions or "nothing to measure")]
    for deep in (False, True):
        shown = [row for row in rows if row.deep is deep]
        named = [name for name in subjects if any(row.measures(SUBJECTS[name]) for row in shown)]
        if shown:
            parts.append(medians(measured, shown, named))
            bases = [base for base in (OURS, FLOOR) if base in measured.versions and base in named]
            parts += [ratios(measured, shown, named, base) for base in bases]
    parts.append(growth(measured, subjects))
    parts.append("\n".join(f"- {name} is not measured: {why}" for name, why in measured.missing.items()))
    parts.append("\n".join(f"- FAILED {what}: {why}" for what, why in measured.failures.items()))
    return "\n\n".join(part for part in parts if part)
