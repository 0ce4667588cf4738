"""Say what the keys do: those of the screen, and the letters that decide, in the console's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from ..console.desk import KEYS, offered
from ..presenting.shown_request import ShownRequest
from ..screens.drawing import Row, labelled, ours

_KEYS: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("Enter", "send the message; ctrl+j inserts a line break"),
    ("Tab", "move between the prompt, the conversation and the pending call"),
    ("Escape", "stop the agent; a call that was running may have happened, and is shown to you later"),
    ("ctrl+g", "continue a stopped run, or retry a failed one"),
    ("ctrl+r", "list earlier conversations, and continue one"),
    ("ctrl+n", "start a new conversation"),
    ("ctrl+t", "show or hide todos, subagents and usage"),
    ("ctrl+o", "show all rows of every call, or only the first"),
    ("ctrl+x", "cancel the run; pending calls will not run"),
    ("ctrl+q", "quit; pending calls stay in the journal"),
)
_LETTERS: tuple[LiteralString, ...] = ("a", "g", "e", "r", "w", "d", "n", "t", "s", "l")


def help_rows(width: int, request: ShownRequest | None = None) -> Iterator[Row]:
    """Draw what the keys do; of one call, only the letters that decide it, and its digest."""
    if request is None:
        for key, meaning in _KEYS:
            yield from _row(key, meaning, width)
        yield []
        yield from ours("title", "Keys while a call is pending", width)
    letters = KEYS if request is None else offered(request)
    for letter in _LETTERS:
        if letter in letters:
            yield from _row(letter, letters[letter].meaning, width)
    yield []
    yield from ours("quiet", "A decision applies to exactly this call.", width)
    if request is not None:
        yield from labelled("quiet", "digest", request.item.digest, width)


def _row(key: LiteralString, meaning: LiteralString, width: int) -> Iterator[Row]:
    lead = f"{key:8}"
    for row in ours("text", meaning, max(width - len(lead), 12)):
        yield [("waits", lead), *row]
        lead = " " * len(lead)
