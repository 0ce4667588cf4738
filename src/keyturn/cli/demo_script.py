"""What the demo types when nobody is there: one fixed answer to each call, typed where a person would type it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from ..engine.states.state import RunState

_LINES: dict[str, list[str]] = {
    "rotate_key": ["a"],
    "delete_backups": ["e", "names=all of them", 'names=["api-2026-03-01", "api-2026-07-01"]', "a"],
    "restart_service": ["r", "Not in the middle of the day."],
    "ask_person": ["w", "The API is restarted tonight at 02:00."],
    "send_notice": ["g", "3", "run"],
}


def scripted(state: RunState[Any], show: Callable[[str], object]) -> Callable[[str], str]:
    """A stand-in for `input` that answers what waits in a state, and shows what it types; then its input ends."""
    decided = state.undelivered.decisions
    waiting = (item for item in state.get_interruptions() if item.call not in decided)
    lines = chain.from_iterable(_LINES.get(item.name or "", ["l"]) for item in waiting)

    def ask(prompt: str) -> str:
        typed = next(lines, None)
        if typed is None:
            raise EOFError
        show(prompt + typed)
        return typed

    return ask
