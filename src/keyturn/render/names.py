"""Detect names that are not what they look like: tools, agents, servers and keys that imitate others.

Only the name itself is judged, with the script that Unicode gives each letter and the table of `core/lookalikes.py`;
the answer is a warning to show or a reason to refuse, never a change of the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast
from unicodedata import name as unicode_name
from unicodedata import normalize

from ..core.lookalikes import LOOKS, small_capital
from .escape import escape

# Scripts of which so many letters are drawn like Latin ones that a name in one of them is shown with a word of warning.
_DRAWN_LIKE_LATIN = frozenset({"Cherokee", "Lisu", "Coptic", "Deseret", "Gothic"})

# Scripts that are written together, and beside Latin, as a matter of course.
_EAST_ASIAN = frozenset({"Cjk", "Hiragana", "Katakana", "Hangul", "Bopomofo", "Ideographic"})


#: How many names of arguments are looked at.
NAMES = 2_000


def doubtful_names(names: Iterable[str], arguments: object) -> Iterator[tuple[str, str]]:
    """Yield those of some names, and of the names of arguments, that may not be what they look like, and why.

    >>> list(doubtful_names(["pay"], {"to": {"\u0430mount": 5}}))
    [('\u0430mount', "mixes Cyrillic and Latin letters and looks like 'amount'")]
    """
    for name in (*names, *islice(argument_names(arguments), NAMES)):
        doubt = mixed_script(name)
        if doubt:
            yield name, doubt


def argument_names(given: object) -> Iterator[str]:
    """Yield the names of arguments, and those in them, each once.

    >>> list(argument_names({"to": {"name": "ada"}, "cc": [{"name": "bob"}]}))
    ['to', 'cc', 'name']
    """
    seen = set[str]()
    level: list[Any] = [given]
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                named = cast("dict[str, Any]", each)
                yield from (name for name in named if name not in seen)
                seen.update(named)
                below += named.values()
            elif isinstance(each, list):
                below += cast("list[Any]", each)
        level = below


def mixed_script(name: str) -> str | None:
    """Return why `name` may not be what it looks like, quoting none of its odd letters; else None.

    >>> mixed_script("p\u0430y")
    "mixes Cyrillic and Latin letters and looks like 'pay'"
    >>> mixed_script("pay") is None
    True
    """
    if name.isascii() and name.isprintable():
        return None
    bare = name.replace("\\", "")
    if escape(bare, keep="") != bare:
        return "holds characters that cannot be seen"
    unified = normalize("NFKC", name)
    looks = "".join(map(_drawn, unified))
    twin = f"looks like {looks!r}" if looks.isascii() else ""
    scripts = sorted({script for char in unified if (script := _script(char))} - _EAST_ASIAN)
    if len(scripts) > 1:
        mixes = f"mixes {', '.join(scripts[:-1])} and {scripts[-1]} letters"
        return f"{mixes} and {twin}" if twin else mixes
    if twin:
        return f"{twin} but is written with other {scripts[0] if scripts else 'Unicode'} letters or signs"
    if scripts and scripts[0] in _DRAWN_LIKE_LATIN:
        return f"is written with {scripts[0]} letters, many of which look like Latin ones"
    if any(small_capital(char) for char in unified):
        return "holds small capitals, which look like other letters"
    return None


def _drawn(char: str) -> str:
    """Return the ASCII character that a character looks like; itself where there is none."""
    # Cherokee's small letters are its capitals drawn smaller.
    capital = char.upper() if _script(char) == "Cherokee" else char
    return small_capital(char) or capital.translate(LOOKS)


def _script(char: str) -> str:
    """Return the script of a letter or digit by its Unicode name; "" for what every script shares."""
    if not char.isalnum() or char in "0123456789":
        return ""
    words = unicode_name(char, "").removeprefix("EXTENDED ").replace("-", " ").split()
    return "" if not words or words[0] == "MODIFIER" else words[0].capitalize()
