"""Follow one call through its run's log: what was said of it and what became of it, each with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from ..core import events as ev
from ..core.beside_events import ApprovalWithdrawn, CallLooked, CallMarked, ReviewGiven
from ..core.codec import Log
from ..core.drills import SAID, word_of
from ..core.reviews import reviewed_call
from ..render.escape import Escaped, clip
from .asking import STATES

_TEXT = 4_000


class Mark(NamedTuple):
    """Holds one thing that happened to a call: the log's line, when, what, by whom, and what was said."""

    line: int
    at: int
    word: str
    by: str = ""
    text: Escaped | None = None
    kind: str = ""


def trail_of(log: Log, call: str) -> list[Mark]:
    """Return what happened to a call, oldest first; of a review, to the call that it is about."""
    call = reviewed_call(call) or call
    return [
        mark
        for number, step in enumerate(log.steps, 1)
        for event in step.events
        for mark in _marks(number, step.at, event, call)
    ]


def was_started(trail: Iterable[Mark]) -> bool:
    """Return whether a call was started, as its trail tells."""
    return any(mark.kind == "started" for mark in trail)  # a rejected call ends as well


def _marks(number: int, at: int, event: Any, call: str) -> Iterator[Mark]:
    told = _TOLD.get(cast("type[Any]", type(event)))
    if told is not None and _call_of(event) == call:
        yield told(_At(number, at), event)


class _At(NamedTuple):
    """Holds the line of an event, and when it was written."""

    line: int
    at: int

    def mark(self, word: str, by: str | None = "", text: str | None = None, kind: str = "") -> Mark:
        """Make the mark of this line; a text is clipped."""
        return Mark(self.line, self.at, word, by or "", _clipped(text), kind)


def _call_of(event: Any) -> str | None:
    if isinstance(event, ev.CallDecided | ev.VoteCast | ev.DrillEnded):
        return event.decision.call
    return getattr(event, "call", None)


def _decided(at: _At, event: ev.CallDecided) -> Mark:
    said = event.decision
    word = STATES.get(said.verdict, said.verdict) + (", alone in an emergency" if said.broke_glass else "")
    signed = ", signed" if said.proof is not None else ""
    return at.mark(word + signed, said.by, said.note or said.message, "decided")


def _voted(at: _At, event: ev.VoteCast) -> Mark:
    said = event.decision
    return at.mark(f"a vote: {STATES.get(said.verdict, said.verdict)}", said.by, said.note)


def _drilled(at: _At, event: ev.DrillEnded) -> Mark:
    word = word_of(event)
    said = None if event.passed is None else SAID[event.passed]
    return at.mark(STATES.get(word, word), event.decision.by, said, "decided")


def _screened(at: _At, event: ev.CallScreened) -> Mark:
    words = {"allow": "may run", "ask": "waits for people", "deny": "denied"}
    return at.mark(words[event.action], kind="denied" if event.action == "deny" else "")


def _marked(at: _At, event: CallMarked) -> Mark:
    on = "is on it" if event.mark == "claim" else "put it off"
    off = "let it go" if event.mark == "claim" else "has it back"
    return at.mark(off if event.until is None else on, event.decider.id)


def _finished(at: _At, event: ev.CallFinished) -> Mark:
    output: Any = event.item.get("output")
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
    word = "failed" if event.failed else "ended"
    return at.mark(word, text=text, kind=word)


def _lost(at: _At, event: ev.CallLost) -> Mark:
    word = "lost; it may simply start again" if event.again else "lost: nobody knows whether it ran"
    return at.mark(word, text=event.why, kind="lost")


_TOLD: dict[type[Any], Callable[[_At, Any], Mark]] = {
    ev.CallDecided: _decided,
    ev.VoteCast: _voted,
    ev.DrillEnded: _drilled,
    ev.CallScreened: _screened,
    ev.CallAskedAgain: lambda at, event: at.mark("asked again", text=event.reason),
    ApprovalWithdrawn: lambda at, event: at.mark("approval taken back", event.decider.id, event.note),
    CallMarked: _marked,
    CallLooked: lambda at, event: at.mark("looks at it", event.decider.id),
    ReviewGiven: lambda at, event: at.mark(f"reviewed: {STATES[event.verdict]}", event.decider.id, event.note),
    ev.CallStarted: lambda at, event: at.mark("started", event.by, kind="started"),
    ev.CallFinished: _finished,
    ev.CallLost: _lost,
}


def _clipped(text: str | None) -> Escaped | None:
    return Escaped(clip(text, _TEXT)) if text else None
