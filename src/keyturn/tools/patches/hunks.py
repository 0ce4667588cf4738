"""Find the place of a hunk in a text and apply it, whatever notation it was written in.

A text is its lines with what stands between them: one more line than newlines, so that a last line without a newline is
a line like any other. Lines are compared exactly, then without the spaces at their ends, then without those at their
starts; what a hunk only quotes stays as the file has it. Nothing here reads a diff or a file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from ..base import ToolProblem

_BOM = "\ufeff"
MOST_HUNKS = 1000  # each may look through the whole text three times
MOST_LINES = 250_000  # each is kept by itself


class InvalidPatch(ToolProblem, ValueError):
    """Raised for a patch that cannot be read, or that does not fit the file; nothing was changed.

    >>> issubclass(InvalidPatch, ValueError)
    True
    """


class HunkRow(NamedTuple):
    """Holds one line of a hunk.

    `cr` says that it ended with a carriage return, None that it does not matter.
    """

    sign: Literal[" ", "-", "+"]
    text: str
    cr: bool | None = False


@dataclass(frozen=True)
class Hunk:
    """Holds lines to find and what to make of them.

    `anchors` are lines to find first, one after another; `near` is the line where it should be, counted from 0;
    `at_end` says that it should end the file.
    """

    rows: tuple[HunkRow, ...]
    anchors: tuple[str, ...] = ()
    near: int | None = None
    at_end: bool = False


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> str:
    """Return the text with all hunks applied, in order, or raise `InvalidPatch`.

    >>> apply_hunks("a\\r\\nb\\r\\n", [Hunk((HunkRow("-", "b"), HunkRow("+", "c")))])
    'a\\r\\nc\\r\\n'
    """
    if len(hunks) > MOST_HUNKS:
        raise InvalidPatch(f"The diff has {len(hunks)} hunks; {MOST_HUNKS} are allowed. Send it in parts.")
    if text.count("\n") > MOST_LINES:
        raise InvalidPatch(f"The file has more than {MOST_LINES} lines, too many to be patched.")
    mark = _BOM if text.startswith(_BOM) else ""
    lines = _Lines(text.removeprefix(mark))
    made: list[_Line] = []
    done = shift = 0
    for number, hunk in enumerate(hunks, 1):
        place, exact = _Search(lines, hunk, done, number).place(shift)
        made += lines.all[done:place]
        changed, done = _changed(lines, hunk, place, exact)
        made += changed
        shift = place - hunk.near if hunk.near is not None else shift
    return mark + _joined([*made, *lines.all[done:]])


class _Line(NamedTuple):
    """Holds one line, and whether it ended with a carriage return."""

    text: str
    cr: bool


class _Lines:
    """Indexes a text's lines, to find where they are."""

    def __init__(self, text: str) -> None:
        *ended, last = text.split("\n")
        self.crlf = sum(line.endswith("\r") for line in ended) * 2 > len(ended)
        self.all = [_Line(line.removesuffix("\r"), line.endswith("\r")) for line in ended]
        self.all.append(_Line(last, self.crlf))
        self._haystacks: dict[Callable[..., str], Haystack] = {}

    def matches(self, wanted: list[str], read: Callable[[str, bool], str], start: int) -> _Matches:
        """Return where `wanted` is found from line `start` on, lines compared in this way."""
        return _Matches(self._haystack(read), "\n" + "".join(f"{line}\n" for line in wanted), start)

    def _haystack(self, read: Callable[[str, bool], str]) -> Haystack:
        if read not in self._haystacks:
            self._haystacks[read] = Haystack([read(*line) for line in self.all])
        return self._haystacks[read]

    @cached_property
    def by_text(self) -> dict[str, list[int]]:
        return _places([line.text for line in self.all])

    @cached_property
    def by_bare_text(self) -> dict[str, list[int]]:
        return _places([line.text.strip() for line in self.all])


class Haystack:
    """Holds lines as one text, each between newlines, and the offset of the newline before each.

    >>> Haystack(["a", "b", "a"]).last("\\na\\n", 0, 7)
    4
    """

    def __init__(self, lines: list[str]) -> None:
        self.offsets = list(accumulate((len(line) + 1 for line in lines[:-1]), initial=0))
        self.text = "\n" + "".join(f"{line}\n" for line in lines)

    @cached_property
    def _backwards(self) -> str:
        return self.text[::-1]

    def last(self, needle: str, start: int, end: int) -> int:
        """Return what `rfind` does, whose time is the product of both lengths for texts that are made for it."""
        whole = len(self.text)
        found = self._backwards.find(needle[::-1], max(whole - end, 0), max(whole - start, 0))
        return whole - found - len(needle) if found >= 0 else -1


class _Matches:
    """Finds the lines at which a needle is in a haystack, from a line on, searched as far as is asked."""

    def __init__(self, haystack: Haystack, needle: str, start: int) -> None:
        self._haystack = haystack
        self._needle = needle
        offsets = haystack.offsets
        self._start = offsets[start] if start < len(offsets) else len(haystack.text)

    @property
    def first(self) -> int | None:
        return self._line(self._haystack.text.find(self._needle, self._start))

    @property
    def last(self) -> int | None:
        return self._line(self._haystack.last(self._needle, self._start, len(self._haystack.text)))

    def nearest(self, line: int) -> int | None:
        """Return the match nearest to a line; of two, the one above."""
        offsets = self._haystack.offsets
        at = offsets[min(max(line, 0), len(offsets) - 1)]
        below = self._line(self._haystack.text.find(self._needle, max(at, self._start)))
        above = self._line(self._haystack.last(self._needle, self._start, at + len(self._needle) - 1))
        if above is None or below is None:
            return below if above is None else above
        return above if line - above <= below - line else below

    def _line(self, at: int) -> int | None:
        return bisect_left(self._haystack.offsets, at) if at >= 0 else None


def _places(texts: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        found.setdefault(text, []).append(place)
    return found


def _exact(text: str, cr: bool) -> str:
    return f"{text}\r" if cr else text


def _ends_aside(text: str, _cr: bool) -> str:
    return text.rstrip()


def _both_sides_aside(text: str, _cr: bool) -> str:
    return text.strip()


class _Search:
    """Finds where one hunk belongs, from a line on."""

    def __init__(self, lines: _Lines, hunk: Hunk, start: int, number: int) -> None:
        self.lines = lines
        self.hunk = hunk
        self.start = start
        self.number = number
        self.old = [row for row in hunk.rows if row.sign != "+"]
        self.lost_anchor: str | None = None

    def place(self, shift: int) -> tuple[int, bool]:
        """Return the line, and whether all was found exactly as it was written."""
        cursor = self._after_anchors()
        if not self.old:
            return self._nowhere_special(cursor, shift), False
        for read in (_exact, _ends_aside, _both_sides_aside):
            wanted = [read(row.text, self.lines.crlf if row.cr is None else row.cr) for row in self.old]
            found = self._chosen(self.lines.matches(wanted, read, cursor), shift)
            if found is not None:
                return found, read is _exact
        raise InvalidPatch(self._complaint(cursor))

    def _after_anchors(self) -> int:
        """Return the line after the last anchor; one that was passed counts still, a missing one is noted."""
        cursor = self.start
        for anchor in self.hunk.anchors:
            for places, wanted in ((self.lines.by_text, anchor), (self.lines.by_bare_text, anchor.strip())):
                known = places.get(wanted, ())
                if known and known[0] < cursor:
                    break
                if known:
                    cursor = known[0] + 1
                    break
            else:
                self.lost_anchor = anchor
        return cursor

    def _chosen(self, matches: _Matches, shift: int) -> int | None:
        first = matches.first
        if first is None:
            return None
        if self.hunk.at_end and (last := matches.last) in self._ends(len(self.lines.all) - len(self.old)):
            return last
        if self.hunk.near is not None:
            return matches.nearest(self.hunk.near + shift)
        if self.lost_anchor is not None and first != matches.last:
            raise InvalidPatch(
                f"Hunk {self.number}: the line {_quoted(self.lost_anchor)} after @@ is not in the file, and without it "
                "the hunk fits several places. Name a line that is there, or give more context."
            )
        return first

    def _ends(self, ends: int) -> tuple[int, ...]:
        # What follows the last newline is a line of its own here, though nobody writes it down.
        return (ends, ends - 1) if not self.lines.all[-1].text else (ends,)

    def _nowhere_special(self, cursor: int, shift: int) -> int:
        """Return where lines go that were given without any context."""
        last = len(self.lines.all) - (not self.lines.all[-1].text)
        if self.hunk.at_end:
            return max(cursor, last)
        if self.hunk.near is not None:
            return max(cursor, min(self.hunk.near + shift, last))
        if self.lost_anchor is not None:
            raise InvalidPatch(
                f"Hunk {self.number}: the line {_quoted(self.lost_anchor)} after @@ is not in the file, and nothing "
                "else says where the new lines go."
            )
        return cursor

    def _complaint(self, cursor: int) -> str:
        wanted = "\n".join(f"  {_quoted(row.text)}" for row in self.old[:6])
        more = f"\n  and {len(self.old) - 6} more" if len(self.old) > 6 else ""
        after = f" after line {cursor}" if cursor else ""
        missing = next((row.text for row in self.old if row.text.strip() not in self.lines.by_bare_text), None)
        hint = f"\nThe line {_quoted(missing)} is nowhere in the file." if missing is not None else ""
        return (
            f"Hunk {self.number} does not fit: the file has no place{after} with these lines:\n{wanted}{more}{hint}\n"
            "Read the file again and send a patch for it as it is; hunks go from top to bottom and do not overlap."
        )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 120 else f"{text[:120]}...")


def _changed(lines: _Lines, hunk: Hunk, place: int, exact: bool) -> tuple[list[_Line], int]:
    """Return what stands in the hunk's place afterwards, and the line after what stood there."""
    made: list[_Line] = []
    for row in hunk.rows:
        if row.sign == " ":
            made.append(lines.all[place])
        elif row.sign == "+":
            # Lines that came without the file's kind of newline get it; a hunk that was exact says its own.
            own = exact and row.cr is not None
            made.append(_Line(row.text, bool(row.cr) if own else lines.crlf))
        place += row.sign != "+"
    return made, place


def _joined(lines: list[_Line]) -> str:
    if not lines:
        return ""
    *ended, last = lines
    return "".join(f"{text}\r\n" if cr else f"{text}\n" for text, cr in ended) + last.text
