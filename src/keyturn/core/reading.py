"""How a tool may read a text: as a path, as a number, in other characters that mean the same.

A comparison sees the text that a model wrote; the tool sees what its own reader makes of that text: trimmed, decoded,
normalized, without regard to case. Nothing here says that two texts are the same. It says where nobody can exclude it.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import cache
from posixpath import normpath
from unicodedata import category, decimal, normalize

# Drawn as nothing and skipped by readers although they are no format characters: Unicode's default ignorables.
_IGNORED = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0)
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_DECODINGS = 4

# What one reader of a path takes for a name and another for a way out: a control character, a backslash, two slashes
# in front, "..", and what becomes one of them when a tool normalizes or decodes the text.
_ODD_PATH = re.compile(r"[\x00-\x1f\x7f\\]|\A//|(?:^|/)\.\.(?:/|\Z)|%(?:00|25|2e|2f|5c)", re.IGNORECASE)
# A home, a drive or the scheme of an address: the path begins somewhere else than where it seems to.
_ELSEWHERE = re.compile(r"\A~|\A[a-z][a-z0-9+.-]*:")
_WILD = re.compile(r"[*?\[{$]")


class CannotTell(Exception):
    """Nobody can tell what a comparison asks. Why is said without the value.

    >>> CannotTell("it is missing").why
    'it is missing'
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@cache
def _table() -> dict[int, int | None]:
    """What readers of text drop, and the digits of all scripts as those of ASCII."""
    table: dict[int, int | None] = dict.fromkeys((*_IGNORED, *range(0xE0000, 0xE1000)))
    for code in range(0x20000):
        char = chr(code)
        kind = category(char)
        if kind == "Cf" or (kind == "Cc" and not char.isspace()):
            table[code] = None
        elif kind == "Nd" and code > 0x7F:
            table[code] = ord("0") + decimal(char)
    return table


def plain(text: str) -> str:
    """A text without what is unseen, in the characters of NFKC, with the digits of ASCII, trimmed.

    >>> plain(" \\u0665\\uff05 \\u200b")
    '5%'
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    return normalize("NFKC", text).translate(_table()).strip()


def folded(text: str) -> str:
    """A plain text without regard to case and to how wide its spaces are.

    >>> folded("DROP \\n Table")
    'drop table'
    """
    return " ".join(normalize("NFKC", plain(text).casefold()).split())


def decoded(text: str) -> str:
    """A text with its percent escapes decoded, until none is left or it gets silly.

    >>> decoded("%252e%252e/x")
    '../x'
    """
    for _round in range(_DECODINGS):
        if "%" not in text:
            break
        text = _PERCENT.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(errors="replace"), text)
    return text


def number_in(text: str) -> Decimal | None:
    """The number that a reader may find in a text; None where it is none.

    >>> number_in(" 1,000.50 "), number_in("0x10"), number_in("ten")
    (Decimal('1000.50'), Decimal('16'), None)
    """
    bare = re.sub(r"[ ,_']", "", folded(text))
    if re.search("[0-9]", bare) is None:
        return None
    try:
        made = Decimal(bare)
        return made if made.is_finite() else None
    except InvalidOperation:
        pass
    try:
        return Decimal(int(bare, 0))
    except ValueError:
        return None


def has_digit(text: str) -> bool:
    """Whether a reader could find a number in a text at all.

    >>> has_digit("no"), has_digit("\\u2167")
    (False, True)
    """
    return any(map(str.isnumeric, text))


def alike(one: str, other: str) -> bool:
    """Whether some reader could take one text for the other: as a word, as a number or as a path.

    >>> alike("./secret.txt", "secret.txt"), alike("Prod ", "prod"), alike("5e2", "500"), alike("ada", "adam")
    (True, True, True, False)
    """
    if one.isalpha() and other.isalpha() and one.isascii() and other.isascii():  # two words, as most are
        return one.lower() == other.lower()
    mine = folded(decoded(one))
    its = folded(decoded(other))
    if mine == its:
        return True
    number = number_in(mine)
    if number is not None and number == number_in(its):
        return True
    return _may_be_one_file(mine, its) or _may_be_one_file(one, other)


def _may_be_one_file(one: str, other: str) -> bool:
    """Two absolute paths are compared; of others nobody knows where they begin, so that the names at the end count."""
    mine, its = _names(one), _names(other)
    if not one or not other:
        return False
    if not mine and not its:  # "." and "/": where a tool begins
        return True
    is_absolute = one[0] in "/\\"
    other_is = other[0] in "/\\"
    if is_absolute and other_is:
        return mine == its
    if not mine or not its:  # "." may be any directory whose whole path is written
        return (other_is and not mine) or (is_absolute and not its)
    short = min(len(mine), len(its))
    return mine[-short:] == its[-short:]


def _names(path: str) -> list[str]:
    names: list[str] = []
    for written in path.replace("\\", "/").split("/"):
        name = written.strip().rstrip(" .") or written  # as Windows opens it
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return names


def readings(text: str) -> list[str]:
    """The other texts that a reader may make of a text, case aside.

    >>> readings("/srv/../etc/passwd "), readings("ada")
    (['/srv/../etc/passwd', '/etc/passwd'], [])
    """
    found = dict.fromkeys([plain(text), plain(decoded(text))])
    for each in [*found]:
        if "/" in each or "\\" in each:
            path = normpath(each.replace("\\", "/"))
            found[path[1:] if path.startswith("//") else path] = None
    found.pop(text, None)
    return list(found)


def odd_path(path: str) -> bool:
    """Whether tools read a path differently. Links on the disk are beyond a comparison.

    >>> odd_path("/srv/data/a b"), odd_path("/srv/../etc"), odd_path("/srv/%2e%2e/etc")
    (False, True, True)
    """
    return _ODD_PATH.search(normalize("NFKC", path)) is not None


def may_be_under(path: str, root: str) -> bool:
    """Whether some reader could take a path, absolute as its root is or relative as that, for one under the root."""
    text = folded(decoded(path))
    names = _names(text)
    top = _names(folded(decoded(root)))
    if names[: len(top)] == top or _ELSEWHERE.search(text):
        return True
    wild = next((place for place, name in enumerate(names) if _WILD.search(name)), None)
    return wild is not None and names[:wild][: len(top)] == top[:wild]
