"""Read what the screen shows: a list, and all of one request, as this person sees them and by the journal's time."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ..core.codec import Log
from ..core.errors import KeyturnError, NotAllowed
from ..core.people import Decider
from ..core.policy import Approval
from ..directory.login import DECIDE, Login
from ..engine.run.log_cache import log_in
from ..inbox.asking import Standing, mark_of, standing
from ..inbox.desk import Inbox
from ..inbox.listing import Filters, Listed, listed
from ..inbox.naming import By
from ..inbox.shown_request import ShownRequest, bare_item
from ..inbox.trail import Mark, trail_of
from ..inbox.words_before import Context, context_of
from ..journal.base import Store
from ..journal.rows import RequestRow


class Seat(NamedTuple):
    """Says who looks into which inbox; `by` is a login, or a name that proves nothing."""

    inbox: Inbox
    store: Store
    by: By

    @property
    def person(self) -> str:
        """Return the id of who looks."""
        by = self.by
        return by if isinstance(by, str) else by.person if isinstance(by, Login) else by.id

    async def lists(self, chosen: Filters) -> Listed:
        """Return the list, as far as it is shown; that it was read is on record where the directory says so."""
        made = await listed(self.inbox, chosen, self.by)
        await self.inbox.reads.note(self.by, "list", [row.id for row in made.rows])
        return made

    async def reads(self, name: str, before: Detail | None = None) -> Detail:
        """Return all of one request; what was seen and changed of it stays if it is still the one that was shown."""
        row = await self.inbox.get(name, by=self.by)
        log, stands = await asyncio.gather(log_in(self.store, row.run), self._standing(row))
        kept = before is not None and before.asking == (row.id, row.digest, row.revision)
        request = before.request if before is not None and kept else await self._request(row)
        return Detail(
            row, request, stands, context_of(log, row.call), trail_of(log, row.call), len(log.steps), _ran(log, row)
        )

    async def _request(self, row: RequestRow) -> ShownRequest:
        if row.state == "open":
            try:
                return ShownRequest(await self.inbox.item(row.id, by=self.by))
            except KeyturnError:  # its tool is not at hand: it can be shown, and not edited
                pass
        return ShownRequest(bare_item(row))

    async def _standing(self, row: RequestRow) -> Standing:
        terms, requester = row.request.terms_now, row.request.requester
        try:
            who = await self._who(terms, requester)
        except NotAllowed as error:
            return Standing((), str(error))
        may = not isinstance(self.by, Login) or DECIDE in self.by.scopes
        return standing(row, who, may=may)

    async def _who(self, terms: Approval | None, requester: str | None) -> Decider:
        if isinstance(self.by, Login):
            return await self.inbox.people.admitted(self.by, scopes=(), terms=terms, requester=requester)
        return Decider(self.by) if isinstance(self.by, str) else self.by


class Detail(NamedTuple):
    """Holds all that is shown of one request."""

    row: RequestRow
    request: ShownRequest
    standing: Standing
    context: Context
    trail: list[Mark]
    head: int
    ran: bool

    @property
    def mark(self) -> str:
        """Return which mark stands for it."""
        return mark_of(self.row)

    @property
    def asking(self) -> tuple[str, str, int]:
        """Return what a decision names: the request, as it was shown."""
        return self.row.id, self.row.digest, self.row.revision

    @property
    def state(self) -> tuple[object, ...]:
        """Return what differs where the request is not as it was shown."""
        row = self.row
        return row.digest, row.state, row.request.revision, len(row.request.votes), row.request.claim, row.expires_at


def _ran(log: Log, row: RequestRow) -> bool:
    return any(mark.kind in ("started", "ended", "failed") for mark in trail_of(log, row.call))
