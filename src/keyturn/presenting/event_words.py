"""Say in a row what an event of a run was: words of ours, and data escaped behind them.

What a tool marks as secret is withheld; long texts are cut with a mark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..core import events as ev
from ..core.call_ids import call_id
from ..core.items import texts_of
from ..core.people import Decider
from ..core.records import Decision, GrantTerms
from ..core.request import shown_params
from ..core.run import Call, Run
from ..core.shown_items import SECRETS, shown_input
from ..render.escape import clip, escape, quote
from ..render.one_row import arguments_row
from ..render.verdicts import STATES, VERDICTS, rechecked, verdict_of
from .call_history import CallHistory
from .grant_words import covered_words
from .trail import confirmed_words

_TEXT = 200  # characters of what somebody said
_ARGUMENTS = 120


class Teller:
    """Tells the events of one run, from its first one on."""

    def __init__(self) -> None:
        self._history = CallHistory()

    def read(self, event: ev.AnyEvent) -> None:
        """Take in an event that nobody is told of."""
        self._history.read(event)

    def rows(self, run: Run, event: ev.AnyEvent) -> Iterator[str]:
        """Return what people are told of an event; `run` is the run after its step."""
        self._history.read(event)
        told = _WORDS.get(type(event))
        return iter(()) if told is None else told(_Seen(run, self._history), event)


class _Seen(NamedTuple):
    """Holds the run after a step, and what was read of its calls so far."""

    run: Run
    history: CallHistory


def _of(seen: _Seen, call: str) -> str:
    name = seen.history.name(call)
    return f"call {escape(call, keep='')}" if name is None else f"{escape(name, keep='')} ({call})"


def _given(call: Call) -> str:
    return arguments_row(shown_params(call), _ARGUMENTS)


def _by(who: Decider | str | None) -> str:
    if isinstance(who, Decider):
        return f" by {quote(who.id)}" + (f" for {quote(who.acting_for)}" if who.acting_for else "")
    return f" by {quote(who)}" if who else ""


def _because(why: str) -> str:
    return f": {clip(why, _TEXT, keep='')}" if why else ""


def _started(seen: _Seen, event: ev.RunStarted) -> Iterator[str]:
    whose = f" for {quote(event.requester)}" if event.requester else ""
    yield f"the run begins{whose}{_said(_input(seen, event.input))}"


def _added(seen: _Seen, event: ev.InputAdded) -> Iterator[str]:
    yield f"a message is added{_said(_input(seen, event.items))}"


def _input(seen: _Seen, given: str | list[Any]) -> str | list[Any]:
    return shown_input(given, seen.run.about.get(SECRETS, {}))


def _said(given: Any) -> str:
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return f": {quote(text, _TEXT)}"


def _opened(_seen: _Seen, event: ev.FrameOpened) -> Iterator[str]:
    yield f"agent {quote(event.agent)} begins"


def _replied(seen: _Seen, event: ev.ReplyRecorded) -> Iterator[str]:
    for item in event.output:
        texts = texts_of(item) if item.get("type", "message") == "message" else []
        yield from (f"the model says{_said(text)}" for text in texts)
    turn = seen.run.frames[event.frame].turn if event.frame in seen.run.frames else 0
    for place in range(len(event.proposals)):
        call = seen.run.calls.get(call_id(event.frame, turn, place))
        if call is not None:
            yield f"the model wants {_of(seen, call.id)} {_given(call)}".rstrip()


def _screened(seen: _Seen, event: ev.CallScreened) -> Iterator[str]:
    verdict: str = event.action
    if seen.history.is_recheck(event):
        call = seen.run.calls.get(event.call)
        verdict = rechecked(event.action, met=call is None or call.state not in ("asked", "proposed"))
    yield f"{_of(seen, event.call)} {VERDICTS[verdict].happened}{_because(event.reason)}"


def _decision(seen: _Seen, said: Decision, words: str) -> str:
    edit = seen.history.edit(said)
    given = "" if edit is None else f" {escape(edit.after, keep='')} in place of {escape(edit.before, keep='')}"
    signed = ", signed" if said.proof is not None else ""
    signed += ", alone in an emergency" if said.broke_glass else ""
    note = f", note {quote(said.note, _TEXT)}" if said.note else ""
    told = f", the model reads {quote(said.message, _TEXT)}" if said.message else ""
    by = "" if said.via == "clock" else _by(said.decider or said.by)
    return f"{_of(seen, said.call)} {words}{given}{by}{signed}{note}{told}"


def _decided(seen: _Seen, event: ev.CallDecided) -> Iterator[str]:
    yield _decision(seen, event.decision, VERDICTS[verdict_of(event.decision)].happened)


def _voted(seen: _Seen, event: ev.VoteCast) -> Iterator[str]:
    made = event.decision
    words = (
        f"had a decision that was replaced: {STATES[verdict_of(made)]}" if event.replaced else seen.history.vote(made)
    )
    if made.confirms and not event.replaced:
        words = f"is {confirmed_words(seen.history.step(made.call))}"
    yield _decision(seen, made, words if event.replaced or made.confirms else f"has {words}")


_AGAIN = {
    "ask_again": "it expired",
    "escalate": "it expired and was escalated",
    "restored": "its store was restored from a copy",
    "forked": "its run is a fork of another",
    "terms": "the policy requires more",
    "step": "step {} of {} of its approval chain is due",
}


def _asked_again(seen: _Seen, event: ev.CallAskedAgain) -> Iterator[str]:
    why = _AGAIN[event.why].format(*seen.history.step(event.call))
    yield f"{_of(seen, event.call)} is requested again: {why}{_because(event.reason)}"


def _marked(seen: _Seen, event: ev.CallMarked) -> Iterator[str]:
    taken = {"claim": "is claimed", "snooze": "is snoozed"}
    freed = {"claim": "is released", "snooze": "is unsnoozed"}
    words = (freed if event.until is None else taken)[event.mark]
    yield f"{_of(seen, event.call)} {words}{_by(event.decider)}"


def _reviewed(seen: _Seen, event: ev.ReviewGiven) -> Iterator[str]:
    said = f"is reviewed as {event.verdict}{_by(event.decider)}{_because(event.note or '')}"
    yield f"{_of(seen, event.call)} {said}"


def _to_review(seen: _Seen, event: ev.ReviewAsked) -> Iterator[str]:
    why = {"glass": "emergency override", "sample": "sampled"}[event.why]
    yield f"a review of {_of(seen, event.call)} is requested: {why}"


def _drilled(seen: _Seen, event: ev.DrillEnded) -> Iterator[str]:
    if event.passed is None:
        yield f"{_of(seen, event.decision.call)} expired"
    else:
        said = "was not approved" if event.passed else "was approved, and nothing ran"
        made = event.decision
        yield f"this was a drill: {_of(seen, made.call)} {said}{_by(made.decider or made.by)}"


def _vote_withdrawn(seen: _Seen, event: ev.VoteWithdrawn) -> Iterator[str]:
    made = event.decision
    yield f"a vote on {_of(seen, made.call)} is withdrawn{_by(made.decider or made.by)}{_because(made.note or '')}"


def _withdrawn(seen: _Seen, event: ev.ApprovalWithdrawn) -> Iterator[str]:
    yield f"the approval of {_of(seen, event.call)} is withdrawn{_by(event.decider)}{_because(event.note or '')}"


def _finished(seen: _Seen, event: ev.CallFinished) -> Iterator[str]:
    output: Any = event.item.get("output")
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
    yield f"{_of(seen, event.call)} {'failed' if event.failed else 'ended'}{_said(text)}"


def _lost(seen: _Seen, event: ev.CallLost) -> Iterator[str]:
    then = "and may simply start again" if event.again else "and is in doubt"
    yield f"{_of(seen, event.call)} was lost {then}{_because(event.why)}"


def _granted(_seen: _Seen, event: ev.GrantGiven) -> Iterator[str]:
    grant: GrantTerms = event.grant
    where = f" for {covered_words(grant.where)}" if grant.where else ""
    yield f"grant {escape(grant.id, keep='')} is created: {grant.verdict}{where}{_by(grant.decider)}"


def _resumed(_seen: _Seen, event: ev.RunResumed) -> Iterator[str]:
    yield f"the run is resumed{_by(event.decider)}"


def _failed(_seen: _Seen, event: ev.RunFailed) -> Iterator[str]:
    yield f"the run {'is set aside' if event.lost else 'stopped'}{_because(event.error)}"


def _closed(_seen: _Seen, event: ev.FrameClosed) -> Iterator[str]:
    name = "the run" if event.frame == ev.ROOT else f"agent of {escape(event.frame, keep='')}"
    yield f"{name} failed{_because(event.error)}" if event.error else f"{name} ends{_said(event.output)}"


_WORDS: dict[type[Any], Callable[[_Seen, Any], Iterator[str]]] = {
    ev.RunStarted: _started,
    ev.RunQueued: lambda seen, event: iter(["the run is queued behind another one of its session"]),
    ev.RunResumed: _resumed,
    ev.FrameOpened: _opened,
    ev.InputAdded: _added,
    ev.ReplyRecorded: _replied,
    ev.ReplyRefused: lambda seen, event: iter(["the model's reply was refused"]),
    ev.CallScreened: _screened,
    ev.VoteCast: _voted,
    ev.VoteWithdrawn: _vote_withdrawn,
    ev.CallDecided: _decided,
    ev.CallAskedAgain: _asked_again,
    ev.ExpiryNear: lambda seen, event: iter([f"{_of(seen, event.call)} is about to expire"]),
    ev.CallVoided: lambda seen, event: iter([f"{_of(seen, event.call)} is proposed anew{_because(event.why)}"]),
    ev.CallStarted: lambda seen, event: iter([f"{_of(seen, event.call)} starts{_by(event.by)}"]),
    ev.CallNeeds: lambda seen, event: iter([f"{_of(seen, event.call)} asks{_said(event.requests)}"]),
    ev.CallMarked: _marked,
    ev.CallLooked: lambda seen, event: iter([f"{_of(seen, event.call)} is viewed{_by(event.decider)}"]),
    ev.ReviewAsked: _to_review,
    ev.ReviewGiven: _reviewed,
    ev.DrillEnded: _drilled,
    ev.ApprovalWithdrawn: _withdrawn,
    ev.CallFinished: _finished,
    ev.CallLost: _lost,
    ev.GrantGiven: _granted,
    ev.GrantUsed: lambda seen, event: iter([f"grant {escape(event.grant, keep='')} covers {_of(seen, event.call)}"]),
    ev.GrantRevoked: lambda seen, event: iter([f"grant {escape(event.grant, keep='')} is revoked"]),
    ev.HandedOff: lambda seen, event: iter([f"agent {quote(event.agent)} takes over"]),
    ev.HistoryCompacted: lambda seen, event: iter(["the older part of the conversation is summarised"]),
    ev.FrameClosed: _closed,
    ev.RunFailed: _failed,
    ev.RunCancelled: lambda seen, event: iter([f"the run is cancelled{_by(event.decider)}{_because(event.why)}"]),
    ev.RunForked: lambda seen, event: iter([f"the run begins here as a fork of {escape(event.origin, keep='')}"]),
    ev.RunRestored: lambda seen, event: iter([f"the run's store was restored{_because(event.why)}"]),
}
