"""Say what the keys do: the same letters as on the pages and at the console."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from ..screens.drawing import Row, ours

_KEYS: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("j k", "the next request, the one before; arrows too"),
    ("enter", "opens it: arrows scroll it; Escape goes back"),
    ("a", "approve exactly this call; of high risk twice"),
    ("e", "change its arguments; you see the changed call before you approve it"),
    ("r", "reject it; the model reads your reason"),
    ("w", "answer it, or write its result; the tool does not run"),
    ("g", "approve it, and calls like it for a while; you choose which"),
    ("b", "ask the agent back; the call does not run"),
    ("x", "one word for all requests of this tool with these arguments"),
    ("d N t", "of a call in doubt: it ran, it did not run, run it again"),
    ("y N", "of a call that is reviewed: it was right, or wrong, to let it run"),
    ("u", "withdraw your vote, while others are still needed"),
    ("c", "say that you are on it, or not any more"),
    ("z", "put it off for an hour, for yourself"),
    ("!", "approve alone in an emergency, where you may"),
    ("n", "show what is new, and put away what is done"),
    ("/", "search; also tool:NAME agent:NAME risk:high"),
    ("m", "only what you may decide, or all"),
    ("?", "these keys"),
    ("q", "leaves; what waits goes on waiting"),
)


def help_rows(width: int) -> Iterator[Row]:
    """Draw what the keys do."""
    for key, meaning in _KEYS:
        lead = f"{key:8}"
        for row in ours("text", meaning, max(width - len(lead), 12)):
            yield [("waits", lead), *row]
            lead = " " * len(lead)
    yield []
    yield from ours("quiet", "A decision is for exactly the call that was shown, and for no other.", width)
