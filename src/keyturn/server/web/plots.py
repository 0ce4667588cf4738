"""Lay plots out: bars of days, ranges with their medians, shares of a whole.

Axes begin at zero, and labels stand at what they name. Only numbers and places are made here; a template draws them as
SVG, and every text of others passes its escaping.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from ...inbox.figures import Figures
from ...journal.rows import EDGES

WIDTH = 640
ROW = 28
_LEFT = 168
_RIGHT = 150
_NAME = 16
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class AxisTick(NamedTuple):
    """Holds one mark of an axis: its place in pixels, and what it says."""

    place: float
    text: str


class Bar(NamedTuple):
    """Holds one bar of a day: where it stands, and the heights of its two parts."""

    x: float
    width: float
    low: float
    high: float
    day: str
    decided: int


class Days(NamedTuple):
    """Holds a plot of days."""

    bars: list[Bar]
    across: list[AxisTick]
    up: list[AxisTick]
    height: int
    floor: int


class Range(NamedTuple):
    """Holds one row of a plot: a label, where its line begins and ends, where its mark stands, and what that says."""

    name: str
    y: int
    begin: float
    end: float
    mark: float
    text: str
    more: str = ""


class Ranges(NamedTuple):
    """Holds a plot of rows."""

    rows: list[Range]
    across: list[AxisTick]
    height: int
    left: int = _LEFT


def time(seconds: float) -> str:
    """Return a time as it stands at an axis.

    >>> time(0), time(1.5), time(5_400), time(90)
    ('0', '1.5 s', '1.5 h', '1.5 min')
    """
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{round(seconds / size, 1):g} {unit}"
    return f"{round(seconds, 1):g} s" if seconds else "0"


def between(low: float | None, high: float | None = None) -> str:
    """Return between which bounds a time lies, or a lower and an upper one: times are counted by steps of a scale.

    >>> between(210), between(2.5, 210), between(0.4), between(700_000), between(None)
    ('2 to 5 min', '2 s to 5 min', 'under 1 s', 'over 7 d', '')
    """
    if low is None:
        return ""
    first = bisect_left(EDGES, low * 1_000)
    last = first if high is None else bisect_left(EDGES, high * 1_000)
    if last >= len(EDGES) or low * 1_000 >= EDGES[-1]:
        return f"over {time(EDGES[min(first, len(EDGES)) - 1] / 1_000)}"
    if not first:
        return f"under {time(EDGES[last] / 1_000)}"
    begin, end = time(EDGES[first - 1] / 1_000), time(EDGES[last] / 1_000)
    number, _, unit = begin.partition(" ")
    return f"{number if end.endswith(f' {unit}') else begin} to {end}"


def steps(top: float) -> list[float]:
    """Return the marks of an axis from zero to at least a number: few, and round.

    >>> steps(7), steps(0), steps(130)
    ([0, 2, 4, 6, 8], [0, 1], [0, 50, 100, 150])
    """
    if top <= 0:
        return [0, 1]
    rough = top / 4
    base = 10 ** floor(log10(rough))
    step = next(base * each for each in (1, 2, 5, 10) if base * each >= rough)
    return [step * number for number in range(ceil(top / step) + 1)]


def time_steps(top: float) -> list[float]:
    """Return the marks of an axis of times, in seconds, round in the unit in which they are said.

    >>> time_steps(100)
    [0.0, 30.0, 60.0, 90.0, 120.0]
    """
    size = next((size for size, _unit in _UNITS if top >= size * 1.5), 1)
    return [size * each for each in steps(top / size)]


def days_plot(days: Sequence[Figures], height: int = 180) -> Days:
    """Return the bars of days: below what was approved, above it what was decided otherwise."""
    top = max((each.decided for each in days), default=0)
    marks = [each for each in steps(top) if each == int(each)]
    most = marks[-1]
    base, room = height - 24, height - 24 - 16
    wide = (WIDTH - 40 - 130) / max(len(days), 1)
    bars = list[Bar]()
    for place, each in enumerate(days):
        approved = round((each.approval_rate or 0) * each.decided)
        x = 40 + place * wide
        low, high = room * approved / most, room * (each.decided - approved) / most
        thick = round(max(wide - 2, 1), 1)
        bars.append(Bar(round(x, 1), thick, round(low, 1), round(high, 1), each.name, each.decided))
    named = sorted({0, len(days) // 2, len(days) - 1}) if days else []
    across = [AxisTick(round(40 + (place + 0.5) * wide, 1), days[place].name[5:]) for place in named]
    up = [AxisTick(round(base - room * each / most, 1), f"{each:g}") for each in marks]
    return Days(bars, across, up, height, base)


def times_plot(figures: Sequence[Figures]) -> Ranges:
    """Return how long people took, for each name: from the first quartile to the third, with the median."""
    some = [each for each in figures if each.to_decide.median_s is not None]
    marks = time_steps(max((each.to_decide.q3_s or 0 for each in some), default=0))
    room = WIDTH - _LEFT - _RIGHT

    def place(seconds: float | None) -> float:
        return round(_LEFT + room * (seconds or 0) / marks[-1], 1)

    rows = [
        Range(
            short(each.name),
            ROW * number + 20,
            place(each.to_decide.q1_s),
            place(each.to_decide.q3_s),
            place(each.to_decide.median_s),
            between(each.to_decide.median_s),
        )
        for number, each in enumerate(some)
    ]
    return Ranges(rows, [AxisTick(place(each), time(each)) for each in marks], ROW * len(some) + 36)


def shares_plot(figures: Sequence[Figures]) -> Ranges:
    """Return how much of what each decided they approved, and what of it was faster than it can be read."""
    some = [each for each in figures if each.decided]
    room = WIDTH - _LEFT - _RIGHT
    rows = [
        Range(
            short(each.name),
            ROW * number + 20,
            _LEFT,
            round(_LEFT + room * (each.approval_rate or 0), 1),
            0,
            f"{each.approval_rate or 0:.0%} of {each.decided}",
            f"{each.hurried} too fast" if each.hurried else "",
        )
        for number, each in enumerate(some)
    ]
    across = [AxisTick(_LEFT + room * each / 4, f"{each * 25} %") for each in range(5)]
    return Ranges(rows, across, ROW * len(some) + 36)


def short(name: str) -> str:
    """Return a name as it fits beside a plot; what is cut is marked, and the table beside has all of it.

    >>> short("pay"), short("x" * 30)
    ('pay', 'xxxxxxxxxxxx[…]')
    """
    return name if len(name) <= _NAME else f"{name[: _NAME - 4]}[…]"
