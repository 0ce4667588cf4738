"""Detect names that are not what they look like: tools, agents, servers and keys that imitate others.

Only the name itself is judged, with the script that Unicode gives each letter and a small table of our
own; the answer is a warning to show or a reason to refuse, never a change of the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast
from unicodedata import name as unicode_name
from unicodedata import normalize

from .escape import escape

# What is drawn like each ASCII character: Cyrillic, Greek, Armenian, Cherokee, Lisu, Latin and punctuation.
_TWINS = {
    "a": "\u0430\u03b1\u0251",
    "b": "\u044c\u0184\u13cf",
    "c": "\u0441\u03f2\u1d04",
    "d": "\u0501\u217e\u13e7",
    "e": "\u0435\u04bd\u212e",
    "g": "\u0261\u0581",
    "h": "\u04bb\u0570\u13c2",
    "i": "\u0456\u03b9\u0131\u0269\u13a5",
    "j": "\u0458\u03f3",
    "k": "\u1d0b",
    "l": "\u04cf\u01c0\u0196",
    "n": "\u0578\u057c",
    "o": "\u043e\u03bf\u0585\u1d0f",
    "p": "\u0440\u03c1",
    "q": "\u051b\u0566",
    "r": "\u1d26",
    "s": "\u0455\ua731",
    "u": "\u057d\u03c5\u1d1c",
    "v": "\u0475\u03bd\u1d20",
    "w": "\u051d\u0561\u1d21",
    "x": "\u0445\u03c7",
    "y": "\u0443\u04af\u03b3\u13a9",
    "z": "\u1d22",
    "A": "\u0410\u0391\u13aa\ua4ee",
    "B": "\u0412\u0392\u13f4\ua4d0",
    "C": "\u0421\u03f9\u13df\ua4da",
    "D": "\u13a0\ua4d3",
    "E": "\u0415\u0395\u13ac\ua4f0",
    "F": "\u03dc\ua4dd",
    "G": "\u050c\u13c0\ua4d6\u13f3",
    "H": "\u041d\u0397\u13bb\ua4e7",
    "I": "\u0406\u04c0\u0399\ua4f2\u13c6",
    "J": "\u0408\u13ab\ua4d9",
    "K": "\u041a\u039a\u13e6\ua4d7",
    "L": "\u13de\ua4e1",
    "M": "\u041c\u039c\u13b7\ua4df",
    "N": "\u039d\ua4e0",
    "O": "\u041e\u039f\u0555\ua4f3\u13a4\u13be\u13eb\u13a3\u13a7\u13c5",
    "P": "\u0420\u03a1\u13e2\ua4d1",
    "Q": "\u051a",
    "R": "\u13a1\u13d2\ua4e3",
    "S": "\u0405\u054f\u13da\ua4e2\u13d5",
    "T": "\u0422\u03a4\u13a2\ua4d4",
    "U": "\u054d\ua4f4",
    "V": "\u0474\u13d9\ua4e6\u13e4",
    "W": "\u051c\u13b3\ua4ea\u13d4",
    "X": "\u0425\u03a7\ua4eb",
    "Y": "\u0423\u03a5\u04ae\ua4ec\u13bd",
    "Z": "\u0396\u13c3\ua4dc",
    "0": "\u0ce6\u0966",
    "3": "\u0417\u04e0",
    "4": "\u13ce",
    "6": "\u0431\u13ee",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212\u30fc\u4e00",
    "_": "\u02cd",
    ".": "\u0660\u06d4",
    "/": "\u2044\u2215\u2571",
    ":": "\u02d0\ua789\u2236",
}
_LOOKS = str.maketrans({twin: plain for plain, twins in _TWINS.items() for twin in twins})

# Scripts of which so many letters are drawn like Latin ones that a name in one of them is shown with a word of warning.
_DRAWN_LIKE_LATIN = frozenset({"Cherokee", "Lisu", "Coptic", "Deseret", "Gothic"})

# Scripts that are written together, and beside Latin, as a matter of course.
_EAST_ASIAN = frozenset({"Cjk", "Hiragana", "Katakana", "Hangul", "Bopomofo", "Ideographic"})


#: How many names of arguments are looked at.
NAMES = 2_000


def doubtful_names(names: Iterable[str], arguments: Any) -> Iterator[tuple[str, str]]:
    """Yield those of some names, and of the names of arguments, that may not be what they look like, and why.

    >>> list(doubtful_names(["pay"], {"to": {"\u0430mount": 5}}))
    [('\u0430mount', "mixes Cyrillic and Latin letters and looks like 'amount'")]
    """
    for name in (*names, *islice(argument_names(arguments), NAMES)):
        doubt = mixed_script(name)
        if doubt:
            yield name, doubt


def argument_names(given: Any) -> Iterator[str]:
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
    if any(_small_capital(char) for char in unified):
        return "holds small capitals, which look like other letters"
    return None


def _drawn(char: str) -> str:
    """Return the ASCII character that a character looks like; itself where there is none."""
    # Cherokee's small letters are its capitals drawn smaller.
    capital = char.upper() if _script(char) == "Cherokee" else char
    return _small_capital(char) or capital.translate(_LOOKS)


def _small_capital(char: str) -> str:
    """Return the letter of which Unicode calls a character the small capital, where it is one of ASCII."""
    _before, found, letter = unicode_name(char, "").partition("LETTER SMALL CAPITAL ")
    return letter.lower() if found and len(letter) == 1 else ""


def _script(char: str) -> str:
    """Return the script of a letter or digit by its Unicode name; "" for what every script shares."""
    if not char.isalnum() or char in "0123456789":
        return ""
    words = unicode_name(char, "").removeprefix("EXTENDED ").replace("-", " ").split()
    return "" if not words or words[0] == "MODIFIER" else words[0].capitalize()
