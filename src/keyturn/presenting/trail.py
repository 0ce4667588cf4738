"""Follow one call through its run's log: what was said of it and what became of it, each with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from ..core import events as ev
from ..core.beside_events import ApprovalWithdrawn, CallLooked, CallMarked, ReviewGiven
from ..core.drill_words import SAID, word_of
from ..core.gate.reviews import reviewed_call
from ..core.items import without_notice
from ..core.people import Decider
from ..core.records import RUNS
from ..render.escape import Escaped, clip, escape
from ..render.verdicts import STATES, asks_more, rechecked, verdict_of
from .call_history import CallHistory

_TEXT = 4_000
#: The kind of a policy's check of a decision that changed nothing: the log of a run has it.
UPHELD = "upheld"
#: The kind of a mark that says that a person had the request before them.
VIEWED = "viewed"
#: The kind of a mark that is a vote which did not settle its request.
VOTE = "vote"
#: The kinds of marks that change nothing of what people decide.
_RUNS = ("started", "ended", "failed", VIEWED, "edit", "screened", UPHELD)


class TrailMark(NamedTuple):
    """Holds one thing that happened to a call: the log's line, when, what, by whom, and what was said.

    `given` is the result that a person gave: their answer, or what a call in doubt came to. `messaged` says that the
    agent reads words of theirs.
    """

    line: int
    at: int
    word: str
    by: str = ""
    text: Escaped | None = None
    kind: str = ""
    given: Escaped | None = None
    messaged: bool = False


def trail_of(steps: Iterable[ev.Step], call: str) -> list[TrailMark]:
    """Return what happened to a call, oldest first; of a review, to the call that it is about."""
    call = reviewed_call(call) or call
    history, marks = CallHistory(), list[TrailMark]()
    for number, step in enumerate(steps, 1):
        for event in step.events:
            history.read(event)
            marks += _marks(_At(number, step, history), event, call)
    if was_started(marks):
        return marks
    return [mark._replace(word="result for the agent") if mark.kind == "ended" else mark for mark in marks]


def changes_since(trail: Iterable[TrailMark], line: int, person: str) -> list[TrailMark]:
    """Return what others did about a call after a line of the log, or the clock did; not that it runs."""
    return [mark for mark in trail if mark.line > line and mark.kind not in _RUNS and mark.by != person]


def result_of(state: str, trail: Iterable[TrailMark]) -> TrailMark | None:
    """Return what a closed request came to: the answer or result that a person gave, else what its call returned."""
    if state in ("answer", "ran"):
        return next((mark for mark in reversed(list(trail)) if mark.given), None)
    if state not in RUNS:
        return None
    last = next((mark for mark in reversed(list(trail)) if mark.kind in ("ended", "failed", "decided")), None)
    return None if last is None or last.kind == "decided" or not last.text else last


def was_started(trail: Iterable[TrailMark]) -> bool:
    """Return whether a call was started, as its trail tells."""
    return any(mark.kind == "started" for mark in trail)  # a rejected call ends as well


def _marks(at: _At, event: Any, call: str) -> Iterator[TrailMark]:
    told = _TOLD.get(cast("type[Any]", type(event)))
    if told is None or _call_of(event) != call:
        return
    yield told(at, event)
    edit = at.history.edit(event.decision) if isinstance(event, ev.CallDecided | ev.VoteCast) else None
    if edit is not None:
        yield at.mark("arguments before the edit", text=edit.before, kind="edit")
        yield at.mark("arguments after the edit", event.decision.by, edit.after, "edit")


class _At(NamedTuple):
    """Holds the line of an event, its step, and what was read of the calls so far."""

    line: int
    step: ev.Step
    history: CallHistory

    def mark(self, word: str, by: str | None = "", text: str | None = None, kind: str = "") -> TrailMark:
        """Make the mark of this line; a text is clipped."""
        return TrailMark(self.line, self.step.at, word, by or "", _clipped(text), kind)


def _call_of(event: object) -> str | None:
    if isinstance(event, ev.CallDecided | ev.VoteCast | ev.VoteWithdrawn | ev.DrillEnded):
        return event.decision.call
    return getattr(event, "call", None)


def _decided(at: _At, event: ev.CallDecided) -> TrailMark:
    said = event.decision
    word = STATES[verdict_of(said)] + (", alone in an emergency" if said.broke_glass else "")
    signed = ", signed" if said.proof is not None else ""
    by = "" if said.via == "clock" else said.by  # the deadline is no person
    made = at.mark(word + _in_place(said.decider) + signed, by, said.note or said.message, "decided")._replace(
        messaged=bool(said.message)
    )
    return made if said.output is None else made._replace(given=_clipped(_text_of(said.output)))


def _voted(at: _At, event: ev.VoteCast) -> TrailMark:
    said = event.decision
    word = at.history.vote(said) if not said.confirms else confirmed_words(at.history.step(said.call))
    word = f"replaced: {STATES[verdict_of(said)]}" if event.replaced else word
    return at.mark(word + _in_place(said.decider), said.by, said.note, VOTE)


def _in_place(who: Decider | None) -> str:
    """Say in whose place somebody decided, as a delegate."""
    return "" if who is None or not who.acting_for else f", for {escape(who.acting_for, keep='')}"


def confirmed_words(step: tuple[int, int]) -> str:
    """Word a vote after which others decide: it meets a step of an approval chain, or confirms a call.

    >>> confirmed_words((1, 2)), confirmed_words((1, 1))
    ('approved step 1 of 2', 'confirmed')
    """
    number, steps = step
    return f"approved step {number} of {steps}" if steps > 1 else "confirmed"


def _asked_again(at: _At, event: ev.CallAskedAgain) -> TrailMark:
    number, steps = at.history.step(event.call)
    return at.mark(f"step {number} of {steps} requested" if event.why == "step" else "asked again", text=event.reason)


def _vote_withdrawn(at: _At, event: ev.VoteWithdrawn) -> TrailMark:
    signed = ", signed" if event.decision.proof is not None else ""
    return at.mark(
        f"vote withdrawn{_in_place(event.decision.decider)}{signed}",
        event.decision.by,
        event.decision.note,
        "withdrawn",
    )


def _approval_withdrawn(at: _At, event: ApprovalWithdrawn) -> TrailMark:
    others = ", with the votes of others" if at.history.has_votes(event.call) else ""
    return at.mark(f"approval withdrawn{_in_place(event.decider)}{others}", event.decider.id, event.note, "withdrawn")


def _drilled(at: _At, event: ev.DrillEnded) -> TrailMark:
    word = word_of(event)
    said = None if event.passed is None else SAID[event.passed]
    return at.mark(STATES.get(word, word), event.decision.by, said, "decided")


def _screened(at: _At, event: ev.CallScreened) -> TrailMark:
    kind = "denied" if event.action == "deny" else "screened"
    if at.history.is_recheck(event):
        came = rechecked(event.action, met=not asks_more(at.step, event.call))
        kind = UPHELD if came == "upheld" else kind
        return at.mark(f"policy checked again: {STATES[came]}", text=event.reason, kind=kind)
    return at.mark(STATES[event.action], kind=kind)


def _marked(at: _At, event: CallMarked) -> TrailMark:
    on = "claimed" if event.mark == "claim" else "snoozed"
    off = "released" if event.mark == "claim" else "unsnoozed"
    return at.mark(off if event.until is None else on, event.decider.id)


def _finished(at: _At, event: ev.CallFinished) -> TrailMark:
    word = "failed" if event.failed else "ended"
    text = _text_of(event.item.get("output"))
    return at.mark(word, text=without_notice(text) if at.history.was_edited(event.call) else text, kind=word)


def _text_of(output: object) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)


def _lost(at: _At, event: ev.CallLost) -> TrailMark:
    word = "lost; it starts again" if event.again else "outcome unknown"
    return at.mark(word, text=event.why, kind="lost")


_TOLD: dict[type[Any], Callable[[_At, Any], TrailMark]] = {
    ev.CallDecided: _decided,
    ev.VoteCast: _voted,
    ev.VoteWithdrawn: _vote_withdrawn,
    ev.DrillEnded: _drilled,
    ev.CallScreened: _screened,
    ev.CallAskedAgain: _asked_again,
    ApprovalWithdrawn: _approval_withdrawn,
    CallMarked: _marked,
    CallLooked: lambda at, event: at.mark("viewed", event.decider.id, kind=VIEWED),
    ReviewGiven: lambda at, event: at.mark(
        STATES[event.verdict] + _in_place(event.decider), event.decider.id, event.note
    ),
    ev.CallStarted: lambda at, event: at.mark("started", event.by, kind="started"),
    ev.CallFinished: _finished,
    ev.CallLost: _lost,
}


def _clipped(text: str | None) -> Escaped | None:
    return Escaped(clip(text, _TEXT)) if text else None
