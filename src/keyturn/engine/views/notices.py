"""Make the notices of a step: what people may have to be told, written in the append of what it is about.

A notice has ids and plain facts only, never what a model or a tool wrote: what somebody is shown is read from the
request when they are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...core import events as ev
from ...core.gate.reviews import review_name
from ...core.run import Call, Review, Run, request_id, undo_until
from ...core.states import OVER, READY, TO_SETTLE
from ...journal.rows import Closing, Notice

RESOLVED = "ask.resolved"
#: After these the request of a caller outside may be decided.
RESOLVING = (ev.CallScreened, ev.CallDecided, ev.RunCancelled)


def notices_of(run: Run, opened: list[Call], closed: dict[str, Closing], events: list[ev.AnyEvent]) -> list[Notice]:
    """Return the notices of a step that was just folded; `opened` and `closed` are its requests, by call."""
    kinds = set(map(type, events))
    again = dict[str, str]()
    if ev.CallAskedAgain in kinds:
        again = {event.call: event.why for event in events if isinstance(event, ev.CallAskedAgain)}
    voted = set[str]() if kinds.isdisjoint(_VOTED) else _voted(events)
    waits = {call.id for call in opened}
    told = [ended(run, closing) for call, closing in closed.items() if call not in waits]
    told += [created(run, call, again.get(call.id)) for call in opened if call.id not in voted or call.id in again]
    for event in events:
        make = NOTICE_MAKERS.get(type(event))
        if make is not None and (notice := make(run, event)) is not None:
            told.append(notice)
    return told


_VOTED = frozenset({ev.VoteCast, ev.VoteWithdrawn, ev.CallMarked, ev.CallLooked})


def _voted(events: list[ev.AnyEvent]) -> set[str]:
    """Return the calls of which nothing changed in who is asked: those voted on, marked and looked at.

    The word of the requester is a vote that changes it: others decide from then on.
    """
    voted = {e.decision.call for e in events if isinstance(e, ev.VoteCast) and not e.decision.confirms}
    voted |= {event.decision.call for event in events if isinstance(event, ev.VoteWithdrawn)}
    return voted | {event.call for event in events if isinstance(event, ev.CallMarked | ev.CallLooked)}


def _review_asked(run: Run, event: ev.ReviewAsked) -> Notice:
    return review_created(run, run.reviews[event.call])


def _looked(run: Run, event: ev.CallLooked) -> Notice:
    return _by(run, "request.looked", event.call, "person", event.decider.id)


def _marked(run: Run, event: ev.CallMarked) -> Notice | None:
    claimed = event.mark == "claim" and event.until is not None
    return _by(run, "request.claimed", event.call, "by", event.decider.id) if claimed else None


def _expires(run: Run, event: ev.ExpiryNear) -> Notice | None:
    call = run.groups["wait"].get(event.call)
    return None if call is None else _of_call(run, call, "request.expiring")


def _grant_revoked(run: Run, event: ev.GrantRevoked) -> Notice:
    by = event.decider.id if event.decider is not None else ""
    return Notice("grant.revoked", run.id, {"at": run.now, "grant": event.grant, "by": by})


def _approval_withdrawn(run: Run, event: ev.ApprovalWithdrawn) -> Notice:
    return _by(run, "approval.revoked", event.call, "by", event.decider.id)


def _decided(run: Run, event: ev.CallDecided) -> Notice | None:
    made = event.decision
    return _by(run, "request.glass_broken", made.call, "by", made.by or "") if made.broke_glass else None


def _by(run: Run, topic: str, call: str, who: str, name: str) -> Notice:
    return Notice(topic, run.id, {"at": run.now, "request": request_id(run, call), who: name})


#: What makes the notice of an event, beside those of the requests that a step opens and closes.
NOTICE_MAKERS: dict[type[Any], Callable[[Run, Any], Notice | None]] = {
    ev.ReviewAsked: _review_asked,
    ev.CallLooked: _looked,
    ev.CallMarked: _marked,
    ev.ExpiryNear: _expires,
    ev.GrantRevoked: _grant_revoked,
    ev.ApprovalWithdrawn: _approval_withdrawn,
    ev.CallDecided: _decided,
}


def resolved(run: Run, events: list[ev.AnyEvent]) -> list[Notice]:
    """Return the notice for a caller outside that its request is decided: approved, refused, expired or withdrawn.

    An approval that can be undone is one from `since` on.
    """
    for event in events:
        match event:
            case ev.CallScreened(call=name) | ev.CallDecided(decision=ev.Decision(call=name)):
                found = run.calls.get(name)
            case ev.RunCancelled():
                found = next(iter(run.calls.values()), None)
            case _:
                continue
        if found is None or not found.proposal.claimed or (found.recheck and run.status not in OVER):
            continue
        if found.state in (*READY, *TO_SETTLE) or run.status in OVER:
            since = max(run.now, undo_until(found) or 0)
            return [Notice(RESOLVED, run.id, {"at": run.now, "since": since, "request": request_id(run, found.id)})]
    return []


def created(run: Run, call: Call, again: str | None = None) -> Notice:
    """Return the notice that a request waits, or that it was escalated; `again` says why it asks anew."""
    made = _of_call(run, call, "request.escalated" if again == "escalate" else "request.created")
    if again is not None:
        made.about["again"] = again
    return made


def review_created(run: Run, review: Review) -> Notice:
    """Return the notice that others are asked about a call that was let run."""
    name = request_id(run, review_name(review.call.id))
    about = {"at": run.now, "request": name, "revision": review.revision, "kind": "review"}
    return Notice("request.created", run.id, about)


def created_all(run: Run, calls: Iterable[Call]) -> list[Notice]:
    """Return the notices of a log that no store had yet, where requests wait."""
    return [created(run, call) for call in calls]


def ended(run: Run, closing: Closing) -> Notice:
    """Return the notice that a request waits no longer: it was decided, ran out, or is void."""
    about = {"at": closing.at, "request": closing.id, "verdict": closing.state, "by": closing.by}
    return Notice("request.decided", run.id, about)


def _of_call(run: Run, call: Call, topic: str) -> Notice:
    about: dict[str, Any] = {"at": run.now, "request": request_id(run, call.id), "revision": call.revision}
    if call.expires_at is not None:
        about["expires_at"] = call.expires_at
    return Notice(topic, run.id, about)
