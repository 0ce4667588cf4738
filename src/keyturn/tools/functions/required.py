"""Find texts of which every match of a regular expression must hold one, as far as that is plain to see.

Files without them need not be matched, which is where most of the time goes. Where nothing is plain there are no such
texts; never some that a match could do without. Only the standard library is used.
"""

from __future__ import annotations

import re

Texts = tuple[str, ...]

MOST = 8  # each is looked for by itself
# One piece of a pattern: an escape, a class, one sign that means something, or one plain character.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|[(){}|*+?^$.]|.", re.DOTALL)
_REPEAT = re.compile(r"[*+?]|\{\d*+,?\d*+\}")
_AT_LEAST_ONCE = re.compile(r"\+|\{0*[1-9]")
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
# Flags may change what everything means, characters may be written as numbers, and some groups decide about others.
_ODD = re.compile(r"\(\?[^:=!<P]|\\[xuUN0-9]")
_PLAIN_ESCAPES = frozenset("\\.^$*+?{}[]|()-/\"' @#%&=~:;,<>!`_")


def required_texts(pattern: str) -> Texts:
    """Return the longest such texts, none where nothing is plain to see.

    >>> required_texts(r"def \\w+\\(self"), required_texts("(cat|dog)s?"), required_texts(r"\\d+")
    (('(self',), ('cat', 'dog'), ())
    """
    if _ODD.search(pattern):
        return ()
    try:
        reader = _Reader(pattern)
        found = reader.alternatives()
    except (_NotPlain, RecursionError):
        return ()
    return found if reader.at == len(pattern) else ()


class _NotPlain(Exception):
    """Raised for what is probably no valid pattern: its compilation will say so."""


class _Reader:
    """Parses a pattern from left to right, and collects what its matches must hold."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at: int = 0

    def alternatives(self) -> Texts:
        """Parse up to the end of the group or of the pattern; return what all alternatives need together."""
        needs = [self.sequence()]
        while self.pattern.startswith("|", self.at):
            self.at += 1
            needs.append(self.sequence())
        together = tuple(dict.fromkeys(text for texts in needs for text in texts))
        return together if all(needs) and len(together) <= MOST else ()

    def sequence(self) -> Texts:
        """Parse one alternative; return the best of what its parts need."""
        best: Texts = ()
        run = ""
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            texts, plain = self.part()
            repeat = _REPEAT.match(self.pattern, self.at)
            if plain and repeat is None:
                run += plain
                continue
            # What is repeated may be there no time; what is repeated from once on is there once, and ends the run.
            if repeat is not None:
                self.at = repeat.end()
                if not _AT_LEAST_ONCE.match(repeat[0]):
                    texts, plain = (), ""
            best = _better(_better(best, texts), (run + plain,))
            run = ""
        return _better(best, (run,))

    def part(self) -> tuple[Texts, str]:
        """Parse the next piece; return what it needs, or the plain character that it is."""
        if self.pattern.startswith("(", self.at):
            return self.group(), ""
        found = _PIECE.match(self.pattern, self.at)
        if found is None:
            raise _NotPlain
        self.at = found.end()
        piece = found[0]
        if piece.startswith("\\"):
            return (), piece[1] if piece[1] in _PLAIN_ESCAPES else ""
        return (), piece if len(piece) == 1 and piece not in "{}*+?^$.[" else ""

    def group(self) -> Texts:
        plain = _GROUP.match(self.pattern, self.at)
        self.at = plain.end() if plain is not None else self.at + 1
        texts = self.alternatives()
        if not self.pattern.startswith(")", self.at):
            raise _NotPlain
        self.at += 1
        return texts if plain is not None else ()  # what only looks around says nothing of the match itself


def _better(one: Texts, other: Texts) -> Texts:
    """Return those of which the shortest is longer: they are in fewer files."""
    return other if min(map(len, other), default=0) > min(map(len, one), default=0) else one
