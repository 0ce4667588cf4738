"""What the demo types when nobody is there: one fixed answer to each call, typed where a person would type it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from ..engine.items import ToolApprovalItem

_LINES: dict[str, list[str]] = {
    "rotate_key": ["a"],
    "delete_backups": ["e", "names=all of them", 'names=["api-2026-03-01", "api-2026-07-01"]', "a"],
    "restart_service": ["r", "Not in the middle of the day."],
    "ask_person": ["w", "The API is restarted tonight at 02:00."],
    "send_notice": ["g", ""],
}


def scripted(items: Iterable[ToolApprovalItem], show: Callable[[str], object]) -> Callable[[str], str]:
    """A stand-in for `input` that answers these calls, and shows what it types."""
    lines = chain.from_iterable(_LINES.get(item.name or "", ["l"]) for item in items)

    def ask(prompt: str) -> str:
        typed = next(lines, "q")
        show(prompt + typed)
        return typed

    return ask
