"""Find texts that all readers order alike.

A date in another form, an amount with a sign in front or a comma in it sorts one way by its characters and another way
by what it means. Only texts of one shape that is known here are surely less or more than one another.
"""

from __future__ import annotations

import re
from datetime import datetime, time

_DIGIT = re.compile("[0-9]")
# No sign but a minus, no leading zeros, and no group of three digits that a comma or a full stop could set apart.
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{3}")
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{3}|\.[0-9]{6})?)?"
_ISO = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{_TIME}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?|{_TIME}")
MOST_ORDERED = 100


def order_of(text: str) -> str:
    """Return the kind of text that a text is surely ordered with; "" where readers do not agree.

    >>> order_of("2025-01-31"), order_of("2025-01-31T10:00Z"), order_of("-1.5"), order_of("b")
    ('0000-00-00', '0000-00-00T00:00Z', 'number', 'word')
    >>> order_of("31.12.2024"), order_of("2025-02-31"), order_of("1.000")
    ('', '', '')
    """
    if not text.isascii() or len(text) > MOST_ORDERED:
        return ""
    if text.isalpha():
        return "word"
    if _PLAIN_NUMBER.fullmatch(text) is not None:
        return "" if _GROUPED.fullmatch(text) is not None else "number"
    iso = _ISO.fullmatch(text)
    if iso is None:
        return ""
    try:
        _ = datetime.fromisoformat(text) if "-" in text[:5] else time.fromisoformat(text)
    except ValueError:  # a month of 31 days that has 30: some readers count on
        return ""
    zone = iso[1] or ""
    return _DIGIT.sub("0", text.removesuffix(zone)) + zone
