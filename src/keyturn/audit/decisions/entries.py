"""Make one entry for each thing that somebody or something decided, of the lines of a log.

A person's word, a vote of a quorum, a policy's verdict, a grant and its end, a request that ran out, a run that was
cancelled: each says who, when, on which call and on which bytes. Secrets are redacted before anything is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core import events as ev
from ...core.digest import canonical
from ...core.drill_words import word_of
from ...core.encodable import moment
from ...render.verdicts import asks_more, rechecked, verdict_of
from .calls import CallBook, in_order
from .entry import AuditEntry, What


def entries_of(book: CallBook, step: ev.Step, started_at: int, line: int) -> Iterator[AuditEntry]:
    """Return what one line of a log says was decided; the lines before it were read into the book.

    Its time is that of the run, which never goes back, whatever the clock of the process did that wrote it.
    """
    book.now = max(book.now, step.at)
    for part, event in enumerate(step.events):
        told = _told(book, event, step)
        about = {} if told is None else book.about(told.pop("of", ""))  # as it was until then: an edit stands beside it
        book.read(event)
        if told is not None and not book.copied:  # else it is an entry of the run that was forked
            key = f"{started_at}.{book.run}.{line}.{part}"
            yield AuditEntry(key=key, run=book.run, line=line, at=moment(book.now), **(about | told))


def _told(book: CallBook, event: ev.AnyEvent, step: ev.Step) -> dict[str, Any] | None:
    if isinstance(event, ev.CallDecided):
        return _decision(book, event.decision, "decision")
    if isinstance(event, ev.VoteCast):
        return _decision(book, event.decision, "vote")
    if isinstance(event, ev.VoteWithdrawn):
        return _decision(book, event.decision, "withdrawal")
    if isinstance(event, ev.ApprovalWithdrawn):
        told = {"of": event.call, "what": "withdrawal", "verdict": "undo", "via": "person"}
        return told | {"note": event.note or "", **_person(event.decider)}
    if isinstance(event, ev.DrillEnded):
        return _decision(book, event.decision, "drill") | {"verdict": word_of(event)}
    if isinstance(event, ev.CallScreened):
        call = book.calls.get(event.call)
        told = {
            "of": event.call,
            "what": "verdict",
            "by": event.by or "tool",
            "note": event.reason or _creator(book, event),
        }
        if call is None or call.decision is None:
            return told | {"verdict": event.action}
        return told | {"what": "recheck", "verdict": rechecked(event.action, met=not asks_more(step, call.id))}
    if isinstance(event, ev.ReviewGiven):
        told = {"of": event.call, "what": "review", "verdict": event.verdict, "via": "person", "digest": event.digest}
        return told | {"note": event.note or "", **_person(event.decider)}
    if isinstance(event, ev.GrantGiven | ev.GrantRevoked):
        return _grant(book, event)
    if isinstance(event, ev.RunCancelled):
        return {"what": "cancellation", "verdict": "cancel", "note": event.why, **_person(event.decider)}
    return None


def _decision(book: CallBook, made: ev.Decision, what: What) -> dict[str, Any]:
    told: dict[str, Any] = {"of": made.call, "what": what, "verdict": verdict_of(made), "via": made.via}
    told |= {"digest": made.digest, "note": made.note or "", "message": made.message or ""}
    told |= {"by": made.by or "", **_person(made.decider)}
    call = book.calls.get(made.call)
    if made.args is not None and call is not None:
        told["edited"] = in_order(book.arguments(call, made.args), like=book.as_made(call))
    if made.output is not None:
        told["answer"] = made.output if isinstance(made.output, str) else canonical(made.output)
    if made.proof is not None:
        told["proof"] = f"{made.proof.scheme}:{made.proof.key}"
    return told


def _grant(book: CallBook, event: ev.GrantGiven | ev.GrantRevoked) -> dict[str, Any]:
    given = isinstance(event, ev.GrantGiven)
    terms = event.grant if given else book.grants.get(event.grant)
    who = event.grant.decider if given else event.decider
    what = "grant" if given else "revocation"
    told: dict[str, Any] = {"what": what, "verdict": "revoke", "via": "person", **_person(who)}
    if terms is not None:
        told["agent"] = terms.agent
        told["tool"] = book.tools.get(terms.tool, terms.tool)
        told["note"] = f"grant {terms.id}"
        told["granted"] = _granted(terms)
        told["verdict"] = terms.verdict if given else "revoke"
    return told


def _creator(book: CallBook, event: ev.CallScreened) -> str:
    """Say who created the grant that decided a call; "" where none did."""
    kind, _, name = (event.by or "").partition(":")
    terms = (book.grants.get(name) or book.grants.get(name.partition("@")[0])) if kind == "grant" else None
    return f"grant created by {terms.decider.id}" if terms is not None and terms.decider is not None else ""


def _granted(terms: ev.GrantTerms) -> str:
    """Return the limits of a grant as JSON: which arguments, until when, for how many calls, in which runs."""
    scope = terms.reach.partition(":")[0] or "run"
    limits = {"where": terms.where, "expires_at": terms.expires_at, "uses": terms.uses, "scope": scope}
    return canonical({name: value for name, value in limits.items() if value is not None})


def _person(who: Any) -> dict[str, Any]:
    if who is None:
        return {}
    return {"by": who.id, "strength": who.strength, "roles": who.roles, "acting_for": who.acting_for}
