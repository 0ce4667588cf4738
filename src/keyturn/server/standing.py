"""Say what a visitor can do about a request: one answer for the pages and for programs."""

from __future__ import annotations

from ..application.app import App
from ..core.errors import NotAllowed
from ..journal.rows import RequestRow
from ..presenting.asking import Standing, standing
from .visitor import Visitor


async def standing_of(app: App, visitor: Visitor, row: RequestRow) -> Standing:
    """Return what a visitor can do about a request, and why not where they cannot."""
    terms, requester = row.request.terms_now, row.request.requester
    try:
        who = await app.people.decider(visitor.id, "authenticated", terms=terms, requester=requester)
    except NotAllowed as error:
        return Standing((), str(error))
    if visitor.person.kind == "machine":
        return Standing((), "No machine decides.")
    return standing(row, who, may=visitor.may("decide"))
