"""Read durations, such as "4h", as milliseconds."""

from __future__ import annotations

import re
from functools import lru_cache

from .errors import UserError

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?(ms|s|m|h|d|w)")
_SHORT = 64
_LONGEST = 2 * 10**14  # so that it ends before the last year there is


def milliseconds(duration: str | float) -> int:
    """Convert a duration such as "90s", "4h" or "1.5d", or a number of seconds, to milliseconds.

    >>> milliseconds("4h"), milliseconds(0.5)
    (14400000, 500)
    """
    value = _in_milliseconds(duration)
    if value is None:
        raise UserError(f"{duration!r} is not a duration: write a number of seconds, or '90s', '4h', '7d'")
    # Compared before it is rounded: infinity has no integer, and half a millisecond is not zero, it is nothing we keep.
    if not 1 <= value < _LONGEST:
        raise UserError(f"a duration is at least a millisecond and at most some thousand years, not {duration!r}")
    return round(value)


def _in_milliseconds(duration: object) -> float | None:
    if isinstance(duration, str):
        return _read(duration) if len(duration) <= _SHORT else _read.__wrapped__(duration)
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        return None
    return duration * 1_000


@lru_cache(maxsize=256)
def _read(text: str) -> float | None:
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]
