"""Decide which requests a list shows a person: one rule for the inbox of a journal and the visitor of a server."""

from __future__ import annotations

from ..core.gate.reviews import kept_from_review
from ..core.people import Decider, kept_out
from ..core.request import Request
from ..journal.rows import RequestRow
from ..presenting.source import RequestSource, source_of


def may_decide(request: Request, who: Decider) -> bool:
    """Return whether a person may decide a request, in the step that is due, a signature aside."""
    if request.kind == "review":
        return not kept_from_review(request.terms, request.not_for, who, request.requester)
    return not who.is_any_of(request.not_for) and not kept_out(request.terms_now, who, request.requester)


def is_from(row: RequestRow, source: RequestSource) -> bool:
    """Return whether a request states that it comes from there; one that cannot be read comes from nowhere."""
    return not any(source) or (row.state != "damaged" and source_of(row.request).has(source))


def is_left_out(row: RequestRow, person: str, now: int, *, mine: bool, unclaimed: bool) -> bool:
    """Return whether a list leaves an open request out: claimed by another, or snoozed by its reader."""
    if row.state != "open":
        return False
    claimed = row.request.claimed_by(now) if unclaimed else ""
    return claimed not in ("", person) or (mine and row.request.is_snoozed(person, now))
