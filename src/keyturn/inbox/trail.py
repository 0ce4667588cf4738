"""Follow one call through its run's log: what was said of it and what became of it, each with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

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


def _marks(number: int, at: int, event: Any, call: str) -> Iterator[Mark]:
    named = (
        event.decision.call
        if isinstance(event, ev.CallDecided | ev.VoteCast | ev.DrillEnded)
        else getattr(event, "call", None)
    )
    if named != call:
        return
    match event:
        case ev.CallDecided():
            said = event.decision
            word = STATES.get(said.verdict, said.verdict) + (", alone in an emergency" if said.broke_glass else "")
            signed = ", signed" if said.proof is not None else ""
            yield Mark(number, at, word + signed, said.by or "", _clipped(said.note or said.message), "decided")
        case ev.VoteCast():
            said = event.decision
            yield Mark(
                number, at, f"a vote: {STATES.get(said.verdict, said.verdict)}", said.by or "", _clipped(said.note)
            )
        case ev.DrillEnded():
            word = word_of(event)
            yield Mark(number, at, STATES.get(word, word), event.decision.by or "", _drill(event), "decided")
        case ev.CallScreened():
            words = {"allow": "may run", "ask": "waits for people", "deny": "denied"}
            yield Mark(number, at, words[event.action], "", None, "denied" if event.action == "deny" else "")
        case ev.CallAskedAgain():
            yield Mark(number, at, "asked again", "", _clipped(event.reason))
        case ApprovalWithdrawn():
            yield Mark(number, at, "approval taken back", event.decider.id, _clipped(event.note))
        case CallMarked():
            on = "is on it" if event.mark == "claim" else "put it off"
            off = "let it go" if event.mark == "claim" else "has it back"
            yield Mark(number, at, off if event.until is None else on, event.decider.id)
        case CallLooked():
            yield Mark(number, at, "looks at it", event.decider.id)
        case ReviewGiven():
            yield Mark(number, at, f"reviewed: {STATES[event.verdict]}", event.decider.id, _clipped(event.note))
        case ev.CallStarted():
            yield Mark(number, at, "started", event.by or "", None, "started")
        case ev.CallFinished():
            output: Any = event.item.get("output")
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
            yield Mark(
                number,
                at,
                "failed" if event.failed else "ended",
                "",
                _clipped(text),
                "failed" if event.failed else "ended",
            )
        case ev.CallLost():
            word = "lost; it may simply start again" if event.again else "lost: nobody knows whether it ran"
            yield Mark(number, at, word, "", _clipped(event.why), "lost")
        case _:
            return


def _drill(event: ev.DrillEnded) -> Escaped | None:
    return None if event.passed is None else _clipped(SAID[event.passed])


def _clipped(text: str | None) -> Escaped | None:
    return Escaped(clip(text, _TEXT)) if text else None
