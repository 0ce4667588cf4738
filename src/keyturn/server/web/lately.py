"""Requests that are over and are still in the list of a page: questions to agents, and what a visitor missed."""

from __future__ import annotations

from ...core.errors import KeyturnError
from ...core.states import OVER
from ...engine.run.log_cache import log_in
from ...inbox.readers import reader_of
from ...journal.rows import Query, RequestRow
from ...presenting.exchange import exchanges_of
from .pages import PageContext

_NEWEST = 20
_DAY_MS = 86_400_000


async def asked_back(at: PageContext) -> list[RequestRow]:
    """Return the requests that wait for an agent's answer to a question, the newest first."""
    found: list[RequestRow] = []
    query = Query(state="asked_back", newest=True, limit=_NEWEST)
    for row in await at.app.journal.requests(query):
        if (row.closed_at or 0) < at.now - _DAY_MS or not at.visibility.sees(row):
            continue
        try:
            log = await log_in(at.app.journal, row.run)
        except KeyturnError:  # a run that cannot be read does not take the page with it
            continue
        each = next((each for each in exchanges_of(log.steps) if each.before == row.call), None)
        if each is not None and not each.after and (each.answered_at or log.run.status not in OVER):
            found.append(row)
    return found


async def missed(at: PageContext) -> list[RequestRow]:
    """Return the requests that expired in the last day and that this visitor could have decided, the newest first."""
    rows = await at.app.journal.requests(Query(state="expire", newest=True, limit=_NEWEST))
    lately = [row for row in rows if (row.closed_at or 0) >= at.now - _DAY_MS and at.visibility.sees(row)]
    return [row for row in lately if reader_of(at.visitor.directory, at.visitor.id, row, at.now).may]
