"""Check whether a JSON text says, to every reader, the numbers that people are shown of it.

Who reads a number with other precision than ours (a `Decimal`, a longer float) gets another value from a text whose
numbers our own reading rounds. Such a text is never what runs: the canonical text of the value that was shown is.
Integers are exact here, and their digits are the same in both texts.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, DecimalException

# A number that can be rounded has a point or an exponent; "-0" is the one integer that loses its sign.
_DOUBTFUL = re.compile(r"[0-9][.eE]|-0")


class _Rounded(Exception):
    """Raised where a number is not exactly what it is read as."""


def is_exact(text: str) -> bool:
    """Return whether every number of a strict JSON text is, digit by digit, the number that its value prints.

    >>> is_exact('{"a": 0.10, "b": 9007199254740993}'), is_exact('{"a": 1e-400}'), is_exact('[9007199254740993.0]')
    (True, False, False)
    """
    if _DOUBTFUL.search(text) is None:
        return True
    try:
        _DECODER.decode(text)
    except _Rounded:
        return False
    return True


def _float(digits: str) -> float:
    value = float(digits)
    try:
        exact = Decimal(digits) == Decimal(repr(value))
    except DecimalException:  # an exponent that no reader agrees on
        exact = False
    if not exact:
        raise _Rounded
    return value


def _int(digits: str) -> int:
    if digits == "-0":
        raise _Rounded
    return 0


_DECODER = json.JSONDecoder(parse_float=_float, parse_int=_int)
