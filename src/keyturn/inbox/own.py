"""Ask an inbox of a journal as one person."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from ..core.errors import NotAllowed
from ..core.people import Decider
from ..core.request import Request
from ..directory.login import DECIDE, Login
from ..directory.state import Key
from ..engine.run.log_cache import log_in
from ..engine.views.items import ToolApprovalItem
from ..journal.rows import GrantRow, Query, RequestRow
from ..presenting.asking import Standing, standing
from ..presenting.edit_preview import EditPreview
from ..presenting.facts import RequestFacts
from ..presenting.reading import read_facts
from .named_inbox import NamedInbox
from .naming import By, Naming, Outcome, Shown, person_of
from .personal import Details, InboxOwner, Marking, Verdict, method_of, signed_of
from .readers import reader_of


class OwnInbox:
    """Lists, shows and decides requests of a journal, as one person; a `PersonalInbox`."""

    server: None = None

    def __init__(self, inbox: NamedInbox, by: By) -> None:
        self._inbox = inbox
        self._by = by

    async def who(self, scope: str = "") -> InboxOwner:
        """Return whose inbox it is, or raise `NotAllowed` where their login is not good for this scope."""
        if not isinstance(self._by, Login):
            who = person_of(self._by)
            return InboxOwner(who.id, who.strength != "claimed")
        if scope and scope not in self._by.scopes:
            raise NotAllowed(f"this login does not allow {scope!r}; its scopes are {', '.join(self._by.scopes)}")
        return InboxOwner(self._by.person, verified=True)

    async def now(self) -> int:
        """Return the journal's time, in milliseconds."""
        return await self._inbox.now()

    async def changes(self) -> AsyncGenerator[object]:
        """Yield at once, and after whatever is written."""
        async with contextlib.aclosing(self._inbox.store.watch_all()) as written:
            async for each in written:
                yield each

    async def page(
        self, query: Query, *, mine: bool = False, unclaimed: bool = False, shown: bool = True
    ) -> Sequence[RequestRow]:
        """Return the rows of a query; with `mine`, those only that this person may decide and did not put off."""
        reader = self._by if shown else None
        return await self._inbox.list(query, for_=self._by if mine else None, unclaimed=unclaimed, by=reader)

    async def row(self, request: str) -> RequestRow | None:
        """Return the row of a request as lists have it; None where there is none."""
        return next(iter(await self._inbox.list(Query(id=request))), None)

    async def get(self, request: str) -> RequestRow:
        """Return one request, whatever became of it, or raise `NotPending`."""
        return await self._inbox.get(request, by=self._by)

    async def facts(self, request: str) -> RequestFacts:
        """Return one request with all that stands beside it."""
        row = await self.get(request)
        standing, log = await self._standing(row), await log_in(self._inbox.store, row.run)
        directory, who = await self._inbox.people.directory(), await self.who()
        reader = reader_of(directory, who.id, row, await self.now())
        return read_facts(row, standing, log, reader, await self._inbox.notified(row))

    async def _standing(self, row: RequestRow) -> Standing:
        terms, requester = row.request.terms_now, row.request.requester
        if not isinstance(self._by, Login):
            return standing(row, person_of(self._by), may=True)
        try:
            who = await self._inbox.people.admitted(self._by, scopes=(), terms=terms, requester=requester)
        except NotAllowed as error:
            return Standing((), str(error))
        return standing(row, who, may=DECIDE in self._by.scopes)

    async def item(self, request: str) -> ToolApprovalItem | None:
        """Return an open request with its tool at hand."""
        return await self._inbox.item(request, by=self._by)

    async def alike(self, request: Shown) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments, this one among them."""
        return await self._inbox.alike(request, by=self._by)

    async def looked(self, request: Shown, **shown: Unpack[Naming]) -> None:
        """Record that this person has a request on the screen."""
        await self._inbox.looked(request, by=self._by, **shown)

    async def decide(self, request: Shown, verdict: Verdict, **details: Unpack[Details]) -> RequestRow:
        """Record a verdict on exactly what was shown; a journal needs no name to record it once."""
        details.pop("once", None)
        method, given = method_of(verdict, details)
        made: RequestRow = await getattr(self._inbox, method)(request, by=self._signer(details), **given)
        return made

    def _signer(self, details: Naming) -> By:
        """Return who decides: a signature says who it is, and is checked, where there is only a name."""
        by = self._by
        signed = details.get("proof") is not None and not isinstance(by, Login | Decider)
        return Login(str(by), (DECIDE,)) if signed else by

    async def decide_all(
        self,
        requests: Sequence[RequestRow | Request],
        verdict: Literal["approve", "reject"],
        **details: Unpack[Details],
    ) -> Sequence[Outcome]:
        """Record one verdict on each of several requests; one that is refused holds up none of the others."""
        note = details.get("note")
        if verdict == "approve":
            return await self._inbox.approve_all(requests, by=self._by, note=note, undo=details.get("undo"))
        return await self._inbox.reject_all(requests, by=self._by, note=note, message=details.get("message"))

    async def mark(
        self,
        request: Shown,
        mark: Marking,
        *,
        until: datetime | None = None,
        lasts: str | None = None,
        once: str | None = None,
        **shown: Unpack[Naming],
    ) -> RequestRow:
        """Claim a request or let it go, snooze it or end that, once under a name."""
        timed: dict[str, Any] = {"until": until, "lasts": lasts} if mark in ("take", "snooze") else {}
        made: RequestRow = await getattr(self._inbox, mark)(request, by=self._by, once=once, **timed, **shown)
        return made

    async def withdraw(
        self, request: Shown, *, run: str | None = None, once: str | None = None, **shown: Unpack[Naming]
    ) -> RequestRow:
        """Withdraw one's vote on an open request, or an approval before its call starts."""
        return await self._inbox.withdraw(request, by=self._signer(shown), run=run, once=once, **shown)

    async def preview_edit(self, request: Shown, edit: Mapping[str, Any], **shown: Unpack[Naming]) -> EditPreview:
        """Return what approving a request with these arguments would run."""
        return await self._inbox.preview_edit(request, edit, **shown)

    async def challenge(self, request: Shown, verdict: Verdict, **details: Unpack[Details]) -> bytes:
        """Return the bytes that this person signs to say so."""
        word, signed = signed_of(verdict, details)
        return await self._inbox.to_sign(request, word, **signed)

    async def keys(self) -> Sequence[Key]:
        """Return the keys that this person enrolled."""
        return await self._inbox.people.keys((await self.who()).id)

    async def grant_rows(self, query: Query) -> Sequence[GrantRow]:
        """Return standing decisions."""
        found = await self._inbox.grants(query)
        if found:  # their predicates hold arguments
            await self._inbox.reads.note(self._by, "list", what="grants")
        return found

    async def revoke(self, run: str, grant: str) -> None:
        """Revoke a standing decision."""
        await self._inbox.revoke(run, grant, by=self._by)
