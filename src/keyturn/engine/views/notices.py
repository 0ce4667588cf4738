"""Make the notices of a step: what people may have to be told, written in the append of what it is about.

A notice has ids and plain facts only, never what a model or a tool wrote: what somebody is shown is read from the
request when they are told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core import events as ev
from ...core.gate.reviews import review_name
from ...core.run import Call, Review, Run, request_id, undo_until
from ...core.states import OVER, READY, TO_SETTLE
from ...journal.rows import Closing, Notice

RESOLVED = "ask.resolved"
#: After these the request of a caller outside may be decided.
RESOLVING = (ev.CallScreened, ev.CallDecided, ev.RunCancelled)
#: What is told of a step beside the requests that it opens and closes.
TELLING = (ev.ReviewAsked, ev.CallLooked, ev.ExpiryNear, ev.GrantRevoked, ev.ApprovalWithdrawn, ev.CallDecided)


def notices_of(run: Run, opened: list[Call], closed: dict[str, Closing], events: list[ev.AnyEvent]) -> list[Notice]:
    """Return the notices of a step that was just folded; `opened` and `closed` are its requests, by call."""
    again = {event.call: event.why for event in events if isinstance(event, ev.CallAskedAgain)}
    # A vote changes nothing of who is asked, but the word of the requester does: others decide from then on.
    voted = {e.decision.call for e in events if isinstance(e, ev.VoteCast) and not e.decision.confirms}
    voted |= {event.decision.call for event in events if isinstance(event, ev.VoteWithdrawn)}
    voted |= {event.call for event in events if isinstance(event, ev.CallMarked | ev.CallLooked)}
    waits = {call.id for call in opened}
    told = [ended(run, closing) for call, closing in closed.items() if call not in waits]
    told += [created(run, call, again.get(call.id)) for call in opened if call.id not in voted or call.id in again]
    for event in events:
        if isinstance(event, ev.ReviewAsked):
            told.append(review_created(run, run.reviews[event.call]))
        elif isinstance(event, ev.CallLooked):
            about = {"at": run.now, "request": request_id(run, event.call), "person": event.decider.id}
            told.append(Notice("request.looked", run.id, about))
        elif isinstance(event, ev.CallMarked) and event.mark == "claim" and event.until is not None:
            about = {"at": run.now, "request": request_id(run, event.call), "by": event.decider.id}
            told.append(Notice("request.claimed", run.id, about))
        elif isinstance(event, ev.ExpiryNear) and event.call in run.groups["wait"]:
            told.append(_of_call(run, run.groups["wait"][event.call], "request.expiring"))
        elif isinstance(event, ev.GrantRevoked):
            by = event.decider.id if event.decider is not None else ""
            told.append(Notice("grant.revoked", run.id, {"at": run.now, "grant": event.grant, "by": by}))
        elif isinstance(event, ev.ApprovalWithdrawn):
            about = {"at": run.now, "request": request_id(run, event.call), "by": event.decider.id}
            told.append(Notice("approval.revoked", run.id, about))
        elif isinstance(event, ev.CallDecided) and event.decision.broke_glass:
            made = event.decision
            about = {"at": run.now, "request": request_id(run, made.call), "by": made.by or ""}
            told.append(Notice("request.glass_broken", run.id, about))
    return told


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
