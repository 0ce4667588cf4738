"""A text that every match of a regular expression must hold, as far as that is plain to see.

Files without it need not be matched, which is where most of the time goes. Where nothing is plain there is no such
text; never one that a match could do without. Only the standard library is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# One piece of a pattern: an escape, a class, one sign that means something, or one plain character.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|[(){}|*+?^$.]|.", re.DOTALL)
_REPEAT = re.compile(r"\{\d*,?\d*\}")
_PLAIN_ESCAPES = frozenset("\\.^$*+?{}[]|()-/\"' @#%&=~:;,<>!`_")


def required_text(pattern: str) -> str:
    """The longest such text, "" where none is plain to see.

    >>> required_text(r"def \\w+\\(self"), required_text("cat|dog"), required_text("colou?r")
    ('(self', '', 'colo')
    """
    if re.search(r"\(\?[^:=!<P]|\\[xuUN0-9]", pattern):
        return ""  # flags may change what everything means, and characters may be written as numbers
    runs = list(_runs(pattern))
    return "" if None in runs else max((run for run in runs if run), key=len, default="")


def _runs(pattern: str) -> Iterator[str | None]:
    """The plain texts at the top of the pattern, one after another; None where there are alternatives."""
    run, depth, place = "", 0, 0
    while place < len(pattern):
        repeat = _REPEAT.match(pattern, place)
        found = repeat or _PIECE.match(pattern, place)
        if found is None:
            yield None  # a class that does not end: no regular expression at all
            return
        piece, place = found[0], found.end()
        if piece == "|" and depth == 0:
            yield None
        depth += (piece == "(") - (piece == ")")
        plain = _plain(piece) if depth == 0 and repeat is None else ""
        if plain:
            run += plain
            continue
        # What is repeated may be there no time; what is repeated from once on is there once.
        yield run[:-1] if piece in ("*", "?") or _may_be_none(repeat) else run
        run = ""
    yield run


def _may_be_none(repeat: re.Match[str] | None) -> bool:
    return repeat is not None and not re.match(r"\{0*[1-9]", repeat[0])


def _plain(piece: str) -> str:
    if piece.startswith("\\"):
        return piece[1] if piece[1] in _PLAIN_ESCAPES else ""
    return piece if len(piece) == 1 and piece not in "(){}|*+?^$.[" else ""
