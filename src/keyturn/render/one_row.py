"""Put a text, or the arguments of a call, into one row: of what has no room, both ends and how much is between them."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

from .arguments import shown_name
from .escape import Escaped, escape
from .plural import plural

_MARK = re.compile(r" \\\[([^\]]*)\] ")
_BREAK = " \\n "
#: Columns of a value that is shortened: below that its ends say nothing.
LEAST = 34
_MOST = 12  # arguments that a row names with their values
_CONTEXT = 4  # characters that are shown beside a change, where there is no room for more
LONG = 120  # characters beyond which a value does not fit the line that is typed


def ends_of(text: str, room: int) -> Escaped:
    r"""Return a text as one row: whole where it fits, else its first and its last part, and how much is between them.

    What is dangerous often stands at the end. No escape is cut in half, and the mark begins as no escaped text does.

    >>> print(ends_of("set -eu\ngit push --force", 40))
    set -eu \n git push --force
    >>> print(ends_of("echo " + "x" * 60 + "; rm -rf /srv", 40))
    echo xxxxxx \[56 characters] rm -rf /srv
    """
    room = max(room, LEAST)
    whole = _row(text) if len(text) <= room else ""
    if len(text) <= room and len(whole) <= room:
        return Escaped(whole)
    left = room - len(_mark(len(text)))
    head = _most(left // 2, lambda count: _row(text[:count]))
    tail = _most(left - left // 2, lambda count: _row(text[len(text) - count :]))
    between = len(text) - head - tail
    return Escaped(_row(text[:head]) + _mark(between) + _row(text[len(text) - tail :]))


def parts(row: Escaped) -> list[Escaped]:
    r"""Return a row in pieces: every second one is a mark's own words, for a face that can draw them as ours.

    >>> parts(ends_of("rm " + "x" * 90 + " y", 34))
    ['rm xxxxx', '79 characters', 'xxxxxx y']
    """
    return [Escaped(part) for part in _MARK.split(row)]


def lines_in(part: str) -> list[Escaped]:
    r"""Return the lines of a piece of a row, for a face that can draw where one ends; an escaped backslash ends none.

    >>> lines_in(ends_of("a\nb", 34)), lines_in(ends_of(r"a \n b", 34))
    (['a', 'b'], ['a \\\\n b'])
    """
    return [Escaped(line) for line in part.split(_BREAK)]


def _mark(count: int) -> str:
    return f" \\[{plural(count, 'character')}] "


def _row(text: str) -> str:
    return _BREAK.join(escape(line, keep="") for line in text.split("\n"))


def _most(room: int, shown: Callable[[int], str]) -> int:
    """Return how many characters can be shown in so many columns."""
    return bisect_right(range(room + 1), room, key=lambda count: len(shown(count))) - 1


def arguments_row(given: object, room: int) -> Escaped:
    r"""Return arguments as one row; where it is too short, the ends of long values, and the names of those left out.

    >>> print(arguments_row({"to": "ada", "amount": 40}, 60))
    to: "ada", amount: 40
    >>> print(arguments_row({"to": "ada", "text": "Dear Ada, " * 9 + "delete it.", "at": 12}, 60))
    to: "ada", text: "Dear Ad \[86 characters] ete it.", at: 12
    >>> print(arguments_row({name: "x" * 40 for name in ("to", "text", "at")}, 60))
    to: "xxxxxxxx \[24 characters] xxxxxxxx", [2 more: text, at]
    """
    if not isinstance(given, dict):
        return ends_of(json.dumps(given, ensure_ascii=False), room)
    given = cast("dict[str, Any]", given)
    named = list(islice(given.items(), _MOST))
    values = [(shown_name(name), _value(value)) for name, value in named]
    for count in range(len(values), 0, -1):
        for rest in _rests([name for name, _ in values[count:]], len(given) - count, room // 3):
            fixed = len(rest) + sum(len(name) + len(": , ") for name, _ in values[:count]) - len(", ")
            share = _share([len(_row(value)) for _, value in values[:count]], room - fixed)
            if share is not None:
                return Escaped(", ".join(f"{name}: {ends_of(value, share)}" for name, value in values[:count]) + rest)
    if not given:
        return Escaped()
    listed = f"[{plural(len(given), 'argument')}: {', '.join(name for name, _ in values)}]"
    return Escaped(listed if len(listed) <= room and len(given) <= _MOST else f"[{plural(len(given), 'argument')}]")


def changes_row(before: object, after: object, room: int) -> tuple[Escaped, Escaped]:
    r"""Return what differs between two sets of arguments, before and after; of long values what is around the change.

    >>> old = {"to": "ada", "text": "Dear Ada, " * 9 + "on Monday."}
    >>> for row in changes_row(old, {**old, "text": "Dear Ada, " * 9 + "on Tuesday."}, 60):
    ...     print(row)
    text:  \[90 characters]  on Monday."
    text:  \[90 characters]  on Tuesday."
    """
    old, new = _named(before), _named(after)
    if old is None or new is None:
        return _around(_value(before), _value(after), room)
    changed = dict[str, tuple[str, str]]()
    for name in {**old, **new}:
        pair = tuple(_value(side[name]) if name in side else "" for side in (old, new))
        if pair[0] != pair[1]:
            changed[name] = pair[0], pair[1]
    share = max(room // max(min(len(changed), _MOST), 1), 2 * LEAST)
    rows: tuple[list[str], list[str]] = ([], [])
    for name, pair in islice(changed.items(), _MOST):
        for row, value, shown in zip(rows, pair, _around(pair[0], pair[1], share), strict=True):
            row.append(f"{shown_name(name)}: {shown}" if value else f"{shown_name(name)} left out")
    more = [f"[{len(changed) - _MOST:,} more]"] if len(changed) > _MOST else []
    return Escaped(", ".join([*rows[0], *more])), Escaped(", ".join([*rows[1], *more]))


def _named(arguments: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None


def _around(before: str, after: str, room: int) -> tuple[Escaped, Escaped]:
    """Return two texts as rows; where one has no room, without the long beginning and end that both have."""
    if all(len(text) <= room and len(_row(text)) <= room for text in (before, after)):
        return Escaped(_row(before)), Escaped(_row(after))
    head = _alike(before, after)
    rest = min(len(before), len(after)) - head
    tail = _alike(before[::-1][:rest], after[::-1][:rest])
    middle = max(len(before), len(after)) - head - tail
    beside = max((room - 2 * LEAST - middle) // 2, 0) or _CONTEXT
    first, last = (each - beside if each > beside + _CONTEXT else 0 for each in (head, tail))
    marks = (_mark(first) if first else ""), (_mark(last) if last else "")
    left = room - sum(map(len, marks))
    shown = (ends_of(text[first : len(text) - last], left) for text in (before, after))
    old, new = (Escaped(marks[0] + text + marks[1]) for text in shown)
    return old, new


def _alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _value(value: object) -> str:
    """Return a value as JSON, but for the line breaks of a text: they are drawn as those of any text."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    lines = (json.dumps(line, ensure_ascii=False)[1:-1] for line in value.split("\n"))
    return '"' + "\n".join(lines) + '"'


def _rests(names: list[str], count: int, room: int) -> Iterator[str]:
    """Yield the words for arguments that have no room: their names where all are known, then their number alone."""
    listed = ", ".join(names)
    if count == len(names) and len(listed) <= room:
        yield f", [{count} more: {listed}]" if names else ""
    if count:
        yield f", [{count:,} more]"


def _share(lengths: list[int], room: int) -> int | None:
    """Return how much room each value can have, short ones less; None where long ones would have too little."""
    left, others = room, len(lengths)
    for length in sorted(lengths):
        if length * others > left:
            return left // others if left // others >= LEAST else None
        left, others = left - length, others - 1
    return max(lengths, default=0)


def is_plain(text: str) -> bool:
    """Return whether a text shows as it is: no character in it is hidden, moves others or acts.

    >>> is_plain("C:/x"), is_plain("a\\nb"), is_plain("a\\u202eb")
    (True, False, False)
    """
    bare = text.replace("\\", "")
    return escape(bare, keep="") == bare


def fits_a_line(text: str, room: int = LONG) -> bool:
    """Return whether a value can be put on the line that is typed, which has so many columns left.

    It must not be wrapped: then it would begin a row, where only words of ours do.

    >>> fits_a_line("ada"), fits_a_line("Dear Ada,\\nthank you")
    (True, False)
    """
    return columns_of(text) <= min(room, LONG) and is_plain(text)


def columns_of(text: str) -> int:
    """Return the columns that a text takes at most: all but ASCII may be drawn twice as wide."""
    return len(text) + sum(not char.isascii() for char in text)
