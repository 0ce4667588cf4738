"""Make text visible: what a model, a tool or a stranger wrote is escaped here before anybody reads it.

Nothing is dropped: a character that could act, hide or move others becomes `\\u{202e}`, a backslash becomes
two, and `unescape` gives back every text exactly. What cannot be told from nothing or from a plain space
is escaped as well. A character that this Python does not know is escaped: it may be any of these.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Literal, TypeAlias
from unicodedata import category

Keep: TypeAlias = Literal["", "\n", "\n\t"]

# Marks that one base may carry. Living languages need up to four; a dozen cover the lines above and below.
_MARKS = 4

_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
# Drawn as nothing although they count as letters, marks or symbols: Unicode's default ignorables and other blanks.
_BLANK = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, 0xFFA0),
            *(*range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)),
            *(0x2800, 0xFFFC, 0x13441, 0x13442, 0x16FE4, 0x1D159),
        ),
    )
)


class Escaped(str):
    """Holds text that was made visible already: a face draws it as it is, and does not escape it once more.

    >>> Escaped(escape("a\\tb"))
    'a\\\\tb'
    """

    __slots__ = ()


def visible(text: str) -> str:
    r"""Return a text as one line that can be seen, as it is where it was escaped already.

    >>> visible("a\n"), visible(Escaped("a\\n"))
    ('a\\n', 'a\\n')
    """
    return text if isinstance(text, Escaped) else escape(text, keep="")


def escape(text: str, keep: Keep = "\n") -> str:
    r"""Return `text` with everything invisible escaped; only the characters of `keep` stay as they are.

    >>> escape("rm \u202efdp.exe\x1b[2K")
    'rm \\u{202e}fdp.exe\\u{1b}[2K'
    >>> escape("one\ntwo", keep="")
    'one\\ntwo'
    """
    plain, others = _PATTERNS[keep]
    return text if plain.fullmatch(text) else others.sub(_shown_run, text)


def arrived(text: str, keep: Keep = "\n") -> Escaped:
    r"""Return a text as it was escaped elsewhere, or escaped here where anything in it could still act or hide.

    >>> arrived("a\\u{1b}"), arrived("a\x1b")
    ('a\\u{1b}', 'a\\u{1b}')
    """
    bare = text.replace("\\", "")
    return Escaped(text if escape(bare, keep) == bare else escape(text, keep))


def unescape(shown: str) -> str:
    r"""Return the text that `escape` or `quote` was given; raise `ValueError` for what neither wrote, such as a cut.

    >>> unescape(escape("C:\\ \u200b")) == "C:\\ \u200b"
    True
    """
    return _ESCAPE.sub(_meant, shown)


def quote(text: str, limit: int | None = None) -> str:
    r"""Return `text` as one line in double quotes that nothing inside can close.

    >>> print(quote('a", "b\n'))
    "a\", \"b\n"
    """
    inner = clip(text, limit, keep="").replace('"', '\\"')
    return f'"{inner}"'


def clip(text: str, limit: int | None, keep: Keep = "\n") -> str:
    r"""Return `text` escaped and, if longer than `limit`, cut with a mark of how much is missing of what.

    The mark begins with a backslash and a bracket, which escaped text never holds: data cannot forge it.

    >>> clip("x" * 1000, 3)[:33]
    'xxx\\[cut: 997 of 1000 characters,'
    """
    if limit is None or len(text) <= limit:
        return escape(text, keep)
    whole = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    head = text[: max(limit, 0)]
    return f"{escape(head, keep)}\\[cut: {len(text) - len(head)} of {len(text)} characters, sha256 of all {whole}]"


def reorders(text: str) -> bool:
    """Return whether right-to-left letters may be drawn in another order than they run.

    >>> reorders("abc"), reorders("\u05d0")
    (False, True)
    """
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None


# The blocks whose letters run from right to left; Arabic digits and unassigned ones included.
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]")


def _patterns(keep: Keep) -> tuple[re.Pattern[str], re.Pattern[str]]:
    visible = rf" -\[\]-~{keep}"
    return re.compile(f"[{visible}]*"), re.compile(f"[^{visible}]+")


_PATTERNS: dict[Keep, tuple[re.Pattern[str], re.Pattern[str]]] = {
    "": _patterns(""),
    "\n": _patterns("\n"),
    "\n\t": _patterns("\n\t"),
}

_SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONG = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t", '"': '"'}
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|(.?))", re.DOTALL)


def _meant(match: re.Match[str]) -> str:
    number, letter = match.groups()
    if number is not None:
        return chr(int(number, 16))
    if letter not in _LONG:
        raise ValueError(f"not an escaped text: at character {match.start()}")
    return _LONG[letter]


def _escaped(char: str) -> str:
    return _SHORT.get(char) or f"\\u{{{ord(char):x}}}"


class _Shown(dict[str, str]):
    """Caches how each character is shown; "" for a mark, whose neighbours decide."""

    def __missing__(self, char: str) -> str:
        kind = category(char)
        if kind in _UNSEEN or char in _BLANK or char == "\\":
            shown = _escaped(char)
        else:
            shown = "" if kind[0] == "M" else char
        # Bounded, or a text of all characters would fill it for the life of the process.
        if len(self) < 8192:
            self[char] = shown
        return shown


_SHOWN = _Shown()


def _shown_run(match: re.Match[str]) -> str:
    """Escape one run of characters other than plain ASCII.

    A mark with no base of the text's own is escaped: it would be drawn over what we wrote ourselves.
    """
    start = match.start()
    marks = 0 if start and match.string[start - 1] not in "\n\t" else _MARKS
    pieces: list[str] = []
    for char in match.group():
        shown = _SHOWN[char]
        if not shown:
            marks += 1
            shown = char if marks <= _MARKS else _escaped(char)
        else:
            marks = 0 if shown == char else _MARKS
        pieces.append(shown)
    return "".join(pieces)
