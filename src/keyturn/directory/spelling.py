"""Check the names and texts that a directory keeps: short, visible, written in one way only."""

from __future__ import annotations

import unicodedata
from typing import Any

from ..core.errors import UserError
from ..core.people import plain_text

_LONGEST = 200


def named(text: Any, what: str) -> str:
    """Return a name that a directory can hold: short, visible, and written in one way only.

    >>> named("ada", "a person")
    'ada'
    """
    plain_text(text, what)
    if not 0 < len(text) <= _LONGEST:
        raise UserError(f"{what} is named by 1 to {_LONGEST} characters")
    if unicodedata.normalize("NFC", text) != text or any(unicodedata.category(each)[0] in "CZ" for each in text):
        raise UserError(f"the id of {what} has visible characters and no spaces, and not {text!r}")
    return text


def one_line(text: Any, what: str, longest: int = _LONGEST) -> str:
    """Return a text that people read in one line: nothing in it is invisible or begins another one.

    >>> one_line("Ada L.", "a name")
    'Ada L.'
    """
    plain_text(text, what)
    if len(text) > longest or not text.isprintable():
        raise UserError(f"{what} is one line of at most {longest} visible characters, not {text[:_LONGEST]!r}")
    return text
