"""One entry for each thing that somebody or something decided, as the logs tell it.

A person's word, a vote of a quorum, a policy's verdict, a grant and its end, a request that ran out, a run that was
cancelled: each says who, when, on which call and on which bytes. Secrets are redacted before anything is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import msgspec

from ...core import events as ev
from ...core.digest import canonical
from ...core.drill_words import word_of
from ...core.encodable import Encodable, moment
from ...render.verdicts import asks_more, rechecked, verdict_of
from .calls import CallBook

What = Literal[
    "decision", "vote", "verdict", "recheck", "review", "drill", "grant", "revocation", "cancellation", "damage"
]


class AuditEntry(Encodable, frozen=True, omit_defaults=True):
    """Describes one decision on record.

    `what` says what it is: a "decision" that settled a request, a "vote" that did not yet, a "verdict" of a tool or a
    policy, the policy's "recheck" of a decision ("upheld", "more", "deny"), a "review" of a call that had been let run,
    the end of a "drill", a "grant" and its "revocation", a "cancellation" of the run. "damage" says that the log cannot
    be read from there on. `digest` names the bytes that were decided on, `arguments` shows them as they were proposed
    and `edited` what a person made of them, both with secrets redacted. `key` names the place of the entry, for the
    next page.

    >>> from datetime import UTC, datetime
    >>> AuditEntry("5.run.0.0", "run", 0, datetime(2026, 11, 2, tzinfo=UTC), "decision", "approve").by
    ''
    """

    key: str
    run: str
    line: int
    at: datetime
    what: What
    verdict: str
    by: str = ""
    via: str = ""
    strength: str = ""
    roles: tuple[str, ...] = ()
    tool: str = ""
    agent: str = ""
    call: str = ""
    request: str = ""
    digest: str = ""
    arguments: str = ""
    edited: str = ""
    note: str = ""
    message: str = ""
    proof: str = ""


def entries_of(book: CallBook, step: ev.Step, started_at: int, line: int) -> Iterator[AuditEntry]:
    """Return what one line of a log says was decided; the lines before it were read into the book."""
    for part, event in enumerate(step.events):
        told = _told(book, event, step)
        about = {} if told is None else book.about(told.pop("of", ""))  # as it was until then: an edit stands beside it
        book.read(event)
        if told is not None:
            key = f"{started_at}.{book.run}.{line}.{part}"
            yield AuditEntry(key=key, run=book.run, line=line, at=moment(max(step.at, 0)), **(about | told))


def _told(book: CallBook, event: ev.AnyEvent, step: ev.Step) -> dict[str, Any] | None:
    if isinstance(event, ev.CallDecided):
        return _decision(book, event.decision, "decision")
    if isinstance(event, ev.VoteCast):
        return _decision(book, event.decision, "vote")
    if isinstance(event, ev.DrillEnded):
        return _decision(book, event.decision, "drill") | {"verdict": word_of(event)}
    if isinstance(event, ev.CallScreened):
        call = book.calls.get(event.call)
        told = {"of": event.call, "what": "verdict", "by": event.by or "tool", "note": event.reason}
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
        told["edited"] = canonical(book.arguments(call, made.args))
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
        told["verdict"] = terms.verdict if given else "revoke"
    return told


def _person(who: Any) -> dict[str, Any]:
    return {} if who is None else {"by": who.id, "strength": who.strength, "roles": who.roles}


def damage(run: str, started_at: int, line: int, at: int, why: str) -> AuditEntry:
    """Make the entry that stands for lines which cannot be read."""
    key = f"{started_at}.{run}.{line}.0"
    return AuditEntry(key, run, line, moment(max(at, 0)), "damage", "damaged", note=why)


def texts(entry: AuditEntry) -> str:
    """Return all that an entry says, to be searched."""
    return "\n".join(str(value) for value in msgspec.structs.asdict(entry).values()).casefold()
