"""Compare ids as people read them: without regard to case, width, what is unseen, and the script of a letter.

Two ids that look alike (homoglyphs) are taken for one person wherever one person must not be two. Nobody is let in by
it: who is named, by a role or by an id, is named exactly.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category, normalize
from unicodedata import name as unicode_name

from .predicates.reading import CannotTell, folded, plain

# What is drawn like each ASCII character: Cyrillic, Greek, Armenian, Cherokee, Lisu, Latin and punctuation.
TWINS = {
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
LOOKS = str.maketrans({twin: plain for plain, twins in TWINS.items() for twin in twins})
# After letters of both cases were made one: what a small letter is drawn like, else what its capital is.
_SMALL = str.maketrans(
    {twin.casefold(): plain.casefold() for plain, twins in TWINS.items() for twin in twins if len(twin.casefold()) == 1}
    | {twin: plain.casefold() for plain, twins in TWINS.items() for twin in twins if twin.casefold() == twin}
)

# Letters that Unicode calls by the one that they look like, as "LATIN SMALL LETTER D WITH STROKE" and those in squares.
_BY_NAME = re.compile(r"(?:.+ )?(?:LATIN|REGIONAL INDICATOR SYMBOL)\b.* ([A-Z])(?: WITH .+)?")
# Accents, and what Unicode has no character for (yet), or keeps for private use.
_DROPPED = frozenset({"Mn", "Me", "Mc", "Co", "Cn", "Cs"})

_BLANK = "\u2800"  # Braille without a dot


def looks_as(text: str) -> str:
    """Return how an id looks: equal for two that people cannot tell apart.

    >>> looks_as("Eve ") == looks_as("eve") == looks_as("\u0435v\u200be")
    True
    >>> looks_as("eve") == looks_as("eva")
    False
    """
    simple = text.isascii() and text.islower() and text.isprintable() and " " not in text
    return text if simple else _looks_as(text)


@lru_cache(maxsize=512)
def _looks_as(text: str) -> str:
    try:
        read = folded(text)
    except CannotTell:  # nobody has an id as long as that
        return text
    return "".join(small_capital(char) or char for char in read).translate(_SMALL)


def small_capital(char: str) -> str:
    """Return the letter of which Unicode calls a character the small capital, where it is one of ASCII.

    >>> small_capital("\u1d00"), small_capital("a")
    ('a', '')
    """
    _before, found, letter = unicode_name(char, "").partition("LETTER SMALL CAPITAL ")
    return letter.lower() if found and len(letter) == 1 else ""


def in_ascii(name: str) -> str:
    """Return a name in the letters of ASCII that its own look like, each in its case, without accents and the unseen.

    Letters that look like none stay. Unlike `looks_as` it takes letters for one that are two in some language, so that
    it is for what must not be passed by, and for no person.

    >>> in_ascii("\uff24\u0435l\u00e9te\u200b\u0424ile"), in_ascii("\U0001f172rop")
    ('Delete\u0424ile', 'Crop')
    """
    if name.isascii() and name.isprintable():
        return name
    # One by one: to sort the accents of a whole text can take long, and they are dropped.
    parts = "".join(" " if char.isspace() or char == _BLANK else normalize("NFKD", plain(char)) for char in name)
    return "".join(_in_ascii(char) for char in parts if category(char) not in _DROPPED)


def _in_ascii(char: str) -> str:
    if char.isascii():
        return char
    called = unicode_name(char, "")
    made = small_capital(char) or char.casefold().translate(_SMALL)
    named = _BY_NAME.fullmatch(called)
    if not made.isascii() and named is not None:
        made = named[1].lower()
    return made.upper() if char.isupper() or "CAPITAL LETTER" in called else made
