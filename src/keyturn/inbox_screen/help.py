"""Say what the keys do: the same letters as on the pages and at the console."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from ..screens.drawing import Row, ours

_KEYS: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("j k", "next and previous request; also the arrow keys"),
    ("enter", "open it: arrows scroll, Escape goes back"),
    ("a", "approve exactly this call; press twice for high risk"),
    ("e", "edit its arguments; the edited call is shown before you approve it"),
    ("r", "reject it; the model reads your reason"),
    ("w", "answer it, or write its result; the tool does not run"),
    ("g", "approve it, and create a grant for similar future calls"),
    ("b", "ask the agent; the call does not run until it is proposed again"),
    ("x", "decide all requests for this tool with these arguments"),
    ("d N t", "call in doubt: it ran, it did not run, run it again"),
    ("y N", "review: the call was right, or wrong"),
    ("u", "withdraw your vote, while others are still needed"),
    ("c", "claim it, or release it"),
    ("z", "snooze it for 1 hour, only for you"),
    ("!", "emergency override (break-glass), if you are permitted"),
    ("n", "show new requests, hide decided ones"),
    ("/", "search, also by tool:NAME agent:NAME risk:high host:NAME folder:PATH"),
    ("m", "only requests that you may decide, or all"),
    ("?", "these keys"),
    ("q", "quit; pending requests stay"),
)


def help_rows(width: int) -> Iterator[Row]:
    """Draw what the keys do."""
    for key, meaning in _KEYS:
        lead = f"{key:8}"
        for row in ours("text", meaning, max(width - len(lead), 12)):
            yield [("waits", lead), *row]
            lead = " " * len(lead)
    yield []
    yield from ours("quiet", "A decision applies to exactly the call that was shown.", width)
