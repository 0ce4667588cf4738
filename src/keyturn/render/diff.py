"""Compute the rows of a difference between two texts, in bounded time whatever the texts are.

difflib alone may take minutes for a text made to be slow. So equal ends are set aside first, then lines that
occur once on each side are matched in order, and difflib sees what is left between them while a budget
lasts; after that, old lines are shown as removed and new ones as added, which is true as well. Nothing
is left out but unchanged lines, and a row says how many. Rows hold raw text: escaping is the layout's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from typing import Literal, NamedTuple, TypeAlias

# "@" counts unchanged lines that are not shown, "\\" says that the line above ends the text without a newline.
Sign: TypeAlias = Literal[" ", "-", "+", "@", "\\"]


class DiffRow(NamedTuple):
    """Holds one row: a removed, added or unchanged line, or the number of lines left out."""

    sign: Sign
    text: str


CONTEXT = 3
_BUDGET = 20_000_000  # steps of the inner loop of difflib at worst: less than half a second


def rows(before: str, after: str) -> Iterator[DiffRow]:
    """Return the changed lines with some unchanged ones around them; nothing if the texts are equal.

    >>> [row.sign + row.text for row in rows("a\\nb\\n", "a\\nc\\n")]
    [' a', '-b', '+c']
    """
    if before == after:
        return
    runs = [(same, list(run)) for same, run in groupby(script(before, after), lambda row: row.sign == " ")]
    for index, (same, run) in enumerate(runs):
        lead = CONTEXT if index else 0
        tail = CONTEXT if index < len(runs) - 1 else 0
        hidden = len(run) - lead - tail if same else 0
        if hidden > 0:
            yield from _ended(run[:lead])
            yield DiffRow("@", f" {hidden} unchanged line{'s' if hidden > 1 else ''} not shown")
            run = run[lead + hidden :]
        yield from _ended(run)


def _ended(run: list[DiffRow]) -> Iterator[DiffRow]:
    lacks = [sign for sign, line in run if not line.endswith("\n")]
    for sign, line in run:
        yield DiffRow(sign, line.removesuffix("\n"))
        if line.endswith("\n") or (sign == "-" and "+" in lacks):  # of both, it is said once
            continue
        yield DiffRow("\\", f" no newline at the end of {'either' if '-' in lacks else 'the'} text")


def script(before: str, after: str) -> Iterator[DiffRow]:
    """Yield all lines of both texts, newlines kept, as unchanged, removed and added.

    >>> [row.sign + row.text for row in script("a\\nb", "a\\n")]
    [' a\\n', '-b']
    """
    old, new = _lines(before), _lines(after)
    budget = _BUDGET
    i = j = 0
    for a, b in [*_anchors(old, new), (len(old), len(new))]:
        top, bottom = _equal_ends(old[i:a], new[j:b])
        gone, come = old[i + top : a - bottom], new[j + top : b - bottom]
        cost = len(gone) * len(come) * min(len(gone), len(come))
        affordable = cost <= budget
        budget -= cost if affordable else 0
        yield from _rows(" ", old[i : i + top])
        yield from _matched(gone, come) if affordable else _replaced(gone, come)
        # What is equal before the anchor, and the anchor itself.
        yield from _rows(" ", old[a - bottom : a + 1])
        i, j = a + 1, b + 1


def _rows(sign: Sign, lines: list[str]) -> Iterator[DiffRow]:
    return (DiffRow(sign, line) for line in lines)


def _replaced(gone: list[str], come: list[str]) -> Iterator[DiffRow]:
    yield from _rows("-", gone)
    yield from _rows("+", come)


def _matched(gone: list[str], come: list[str]) -> Iterator[DiffRow]:
    for tag, i, until_i, j, until_j in SequenceMatcher(None, gone, come, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from _rows(" ", gone[i:until_i])
        else:
            yield from _replaced(gone[i:until_i], come[j:until_j])


def _lines(text: str) -> list[str]:
    # Not splitlines: it also splits at, and so hides, a dozen other characters.
    *lines, last = text.split("\n")
    ended = [line + "\n" for line in lines]
    return [*ended, last] if last else ended


def _equal_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return how many lines are equal at the start, and how many of the others at the end."""
    top = _equal(old, new)
    return top, _equal(old[top:][::-1], new[top:][::-1])


def _equal(old: list[str], new: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return places of lines that occur once in each text: the longest chain that is in order in both."""
    once = _places(new)
    pairs = [(place, once[line]) for line, place in _places(old).items() if line in once]
    ends: list[int] = []  # for each length, the least new place that a chain of it ends at,
    chain: list[int] = []  # and the pair that ends it
    before: list[int] = []  # for each pair, the pair before it in its chain
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(chain[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        chain[length : length + 1] = [index]
    picked: list[tuple[int, int]] = []
    index = chain[-1] if chain else -1
    while index >= 0:
        picked.append(pairs[index])
        index = before[index]
    return picked[::-1]


def _places(lines: list[str]) -> dict[str, int]:
    counts = Counter(lines)
    return {line: place for place, line in enumerate(lines) if counts[line] == 1}
