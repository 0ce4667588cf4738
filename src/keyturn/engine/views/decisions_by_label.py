"""Look up the decision on a call by tool name and provider call id: for code that has no item in hand."""

from __future__ import annotations

from collections import Counter

from ...core import events as ev
from ...core.call_ids import call_id
from ...core.run import request_id
from ..run.open_run import OpenRun

_APPROVED = ("approve", "edit", "retry")


class DecisionsByLabel:
    """Finds decisions in the log of a run, up to `until`, None for all of it.

    `within` is the frame that asks: it knows of its own calls and those below, never of its caller's.
    """

    __slots__ = ("_live", "_until", "_within")

    def __init__(self, live: OpenRun, within: str, until: int | None = None) -> None:
        self._live = live
        self._within, self._until = within, until

    def __call__(self, tool_name: str, label: str) -> tuple[bool | None, str | None]:
        """Return whether the newest call of that tool and label was approved or rejected, and why it was rejected."""
        steps = self._live.log.steps[: self._until]
        calls = [call for call in _labelled(steps, tool_name, label) if call.startswith(f"{self._within}/")]
        standing = _standing(steps, calls)
        decision = next((standing[call] for call in reversed(calls) if call in standing), None)
        if decision is None:
            return None, None
        return decision.verdict in _APPROVED, decision.message


def asked_as(live: OpenRun, name: str) -> set[str]:
    """Return the calls that ever asked somebody under a name: the label their provider gave them, or a request's id."""
    labels: dict[str, str] = {}
    turns: Counter[str] = Counter()
    asked: set[str] = set()
    for event in (event for step in live.log.steps for event in step.events):
        if isinstance(event, ev.ReplyRecorded):
            turns[event.frame] += 1
            for index, proposal in enumerate(event.proposals):
                labels[call_id(event.frame, turns[event.frame], index)] = proposal.label
        elif (call := _asking(event)) is not None:
            asked.add(call)
    return {call for call in asked if name in (labels.get(call), request_id(live.run, call))}


def asked_once(live: OpenRun, call: str) -> bool:
    """Return whether people were asked about a call no more than once."""
    return [_asking(event) for step in live.log.steps for event in step.events].count(call) <= 1


def _asking(event: ev.AnyEvent) -> str | None:
    """Return the call about which an event asks people; None where it asks about none."""
    if isinstance(event, ev.CallNeeds | ev.CallLost | ev.CallAskedAgain):
        return event.call
    return event.call if isinstance(event, ev.CallScreened) and event.action == "ask" else None


def _labelled(steps: list[ev.Step], tool_name: str, label: str) -> list[str]:
    turns: Counter[str] = Counter()
    found: list[str] = []
    for step in steps:
        for event in step.events:
            if isinstance(event, ev.ReplyRecorded):
                turns[event.frame] += 1
                found += [
                    call_id(event.frame, turns[event.frame], index)
                    for index, proposal in enumerate(event.proposals)
                    if (proposal.name, proposal.label) == (tool_name, label)
                ]
    return found


def _standing(steps: list[ev.Step], calls: list[str]) -> dict[str, ev.Decision]:
    """Return the standing decisions on these calls: none that is void, no answer to a tool's question."""
    standing: dict[str, ev.Decision] = {}
    answering: set[str] = set()
    for event in (event for step in steps for event in step.events):
        if isinstance(event, ev.CallNeeds) and event.wants == "approval":
            standing.pop(event.call, None)
        elif isinstance(event, ev.CallNeeds):
            answering.add(event.call)
        elif isinstance(event, ev.CallVoided):
            standing.pop(event.call, None)
        elif isinstance(event, ev.CallDecided):
            call = event.decision.call
            if call in calls and call not in answering:
                standing[call] = event.decision
            answering.discard(call)
    return standing
