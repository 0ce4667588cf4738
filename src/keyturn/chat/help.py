"""Say what the keys do: those of the screen, and the letters that decide, in the console's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from ..console.desk import KEYS, offered
from ..presenting.shown_request import ShownRequest
from ..screens.drawing import Row, labelled, ours

_KEYS: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("Enter", "sends what you typed; ctrl+j begins a new line"),
    ("Tab", "moves between the prompt, the conversation and the call that waits"),
    ("Escape", "stops the work; what is in flight may have happened, and is asked about later"),
    ("ctrl+g", "goes on with a run that was stopped, or tries again what failed"),
    ("ctrl+r", "lists earlier conversations, to go on with one"),
    ("ctrl+n", "begins another conversation"),
    ("ctrl+t", "shows or hides todos, subagents and usage"),
    ("ctrl+o", "shows all rows of every call, or the first ones"),
    ("ctrl+x", "cancels the run for good: what waits will not run"),
    ("ctrl+q", "leaves; what waits stays in the journal"),
)
_LETTERS: tuple[LiteralString, ...] = ("a", "g", "e", "r", "w", "d", "n", "t", "s", "l")


def help_rows(width: int, request: ShownRequest | None = None) -> Iterator[Row]:
    """Draw what the keys do; of one call, only the letters that decide it, and its digest."""
    if request is None:
        for key, meaning in _KEYS:
            yield from _row(key, meaning, width)
        yield []
        yield from ours("title", "The letters, while a call waits", width)
    letters = KEYS if request is None else offered(request)
    for letter in _LETTERS:
        if letter in letters:
            yield from _row(letter, letters[letter].meaning, width)
    yield []
    yield from ours("quiet", "A decision is for exactly this call and no other.", width)
    if request is not None:
        yield from labelled("quiet", "digest", request.item.digest, width)


def _row(key: LiteralString, meaning: LiteralString, width: int) -> Iterator[Row]:
    lead = f"{key:8}"
    for row in ours("text", meaning, max(width - len(lead), 12)):
        yield [("waits", lead), *row]
        lead = " " * len(lead)
