"""Limits on what a server may send and how long it may take, so that memory, work and waiting are bounded."""

from __future__ import annotations

from typing import Any, cast

from ..core.digest import canonical

MESSAGE_BYTES = 16 << 20
"""The largest message that is read. What is larger is not, and the connection it came on is closed."""

NOISE_BYTES = 1 << 20
"""How much may be written to a server's output that is no message, before it counts as broken."""

ASIDE_LINE = 4096
ASIDE_BYTES = 1 << 18
"""How much of what a program writes to its error output is shown: of a line, and of all."""

LIST_PAGES = 100
LIST_TOOLS = 1000
LIST_BYTES = 4 << 20
"""What a listing may come to, all pages together."""

WORDS_BYTES = 1 << 20
WORDS_DEPTH = 40
"""What a server may say of one tool, or ask people at once: a log must hold it, and somebody read it."""

OPEN_LINES = 32
"""How many connections a server has at most that asks within its calls, one for each call that stands open.

The call that waits longest for a person gives way to the next one."""

IDLE_LINES = 2
"""How many of them stay open without a call, beside the one that all calls share."""

CONNECT_SECONDS = 30.0
STOP_SECONDS = 1.0
"""How long a server's process may take to end by itself, and again after it was told to."""


def size_of(words: object) -> int:
    """Return the size of a value as a log stores it; `ValueError` says why it cannot be stored."""
    if _depth(words) > WORDS_DEPTH:
        raise ValueError(f"nested deeper than {WORDS_DEPTH} levels")
    try:
        size = len(canonical(words))
    except Exception as error:  # half a character, say
        raise ValueError(f"nothing that can be recorded ({type(error).__name__})") from None
    if size > WORDS_BYTES:
        raise ValueError(f"longer than {WORDS_BYTES} bytes")
    return size


def _depth(value: object) -> int:
    """Return how deep a value is nested, counted level by level."""
    deep, level = 0, [value]
    while level and deep <= WORDS_DEPTH:
        deep, level = deep + 1, [inner for each in level for inner in _members(each)]
    return deep


def _members(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
