"""Put a value, or as many of a call's arguments as there is room for, into one row, each whole."""

from __future__ import annotations

import json
from typing import Any

from .arguments import shown_name
from .escape import escape

LONG = 120  # characters beyond which a value does not fit the line that is typed


def first_arguments(given: dict[str, Any], room: int) -> str:
    """Return the first arguments that a row has room for, each whole, and a mark that says how many it has not.

    The row is not escaped yet.

    >>> first_arguments({"to": "ada", "text": "a long one"}, 30)
    '  to: "ada", [1 more]'
    """
    best = ""
    row = "  "
    for count, (name, value) in enumerate(given.items(), 1):
        row += f"{shown_name(name)}: {json.dumps(value, ensure_ascii=False)}"
        if len(row) > room:
            break
        marked = row if count == len(given) else f"{row}, [{len(given) - count} more]"
        best = marked if len(marked) <= room else best
        row += ", "
    return best


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
