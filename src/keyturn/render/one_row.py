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
    return Escaped(f"[{plural(len(given), 'argument')}]" if given else "")


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
