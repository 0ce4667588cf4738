"""What a run knows of a call by the label its provider gave it: the question of code that has no item in hand."""

from __future__ import annotations

from collections import Counter

from ..core import events as ev
from .live import Live

_APPROVED = ("approve", "edit", "retry")


def decision_on(live: Live, within: str, tool_name: str, label: str) -> tuple[bool | None, str | None]:
    """Whether the newest call of that tool and label was approved or rejected, and the words of a rejection.

    `within` is the frame that asks: it knows of its own calls and those below, never of its caller's.
    """
    calls = (call for call in reversed(_labelled(live, tool_name, label)) if call.startswith(f"{within}/"))
    decision = next((found for call in calls if (found := live.run.decided.get(call))), None)
    if decision is None:
        return None, None
    return decision.verdict in _APPROVED, decision.message


def _labelled(live: Live, tool_name: str, label: str) -> list[str]:
    turns: Counter[str] = Counter()
    found: list[str] = []
    for step in live.log.steps:
        for event in step.events:
            if isinstance(event, ev.ReplyRecorded):
                turns[event.frame] += 1
                found += [
                    f"{event.frame}/{turns[event.frame]}.{index}"
                    for index, proposal in enumerate(event.proposals)
                    if (proposal.name, proposal.label) == (tool_name, label)
                ]
    return found
