"""Sit at a journal: what it lists, all of one request, and the words that its inbox takes, by the journal's time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

from ..core.errors import KeyturnError, NotAllowed
from ..core.people import Decider
from ..core.policy import Approval
from ..core.records import Word
from ..directory.login import DECIDE, Login
from ..engine.run.log_cache import log_in
from ..inbox.desk import Inbox
from ..inbox.listing import Filters, Listed, listed
from ..inbox.naming import By, Naming, Outcome
from ..journal.base import Store
from ..journal.rows import Query, RequestRow
from ..presenting.asking import Standing, standing
from ..presenting.shown_request import ShownRequest, bare_item
from ..presenting.trail import trail_of, was_started
from ..presenting.words_before import context_of
from .reading import Detail
from .signing import own_key


class JournalSeat(NamedTuple):
    """Sits at a journal; `by` is a login, or a name that proves nothing, and `keyfile` what signs, "" for ~/.ssh."""

    inbox: Inbox
    store: Store
    by: By
    keyfile: str = ""

    @property
    def person(self) -> str:
        """Return the id of who looks."""
        by = self.by
        return by if isinstance(by, str) else by.person if isinstance(by, Login) else by.id

    @property
    def place(self) -> LiteralString:
        """Return what is away when nothing can be read."""
        return "journal"

    async def now(self) -> int:
        """Return the journal's time."""
        return await self.inbox.now()

    async def changes(self) -> AsyncGenerator[object]:
        """Yield at once, and after whatever is written."""
        async with contextlib.aclosing(self.store.watch_all()) as told:
            async for each in told:
                yield each

    async def row(self, name: str) -> RequestRow | None:
        """Return the row of a request, whatever became of it; None where there is none."""
        rows = await self.store.requests(Query(id=name))
        return rows[0] if rows else None

    async def looked(self, row: RequestRow) -> None:
        """Put on record that a request is on the screen."""
        await self.inbox.looked(row, by=self.by)

    async def says(self, request: ShownRequest, word: str, *given: Any, **more: Any) -> RequestRow:
        """Say a word of the inbox about exactly what was shown."""
        deciding = getattr(self.inbox, word)
        name = request.item.request_id
        by = self.by
        if more.get("proof") is not None and isinstance(by, str):  # the signature says who it is, and is checked
            by = Login(by, (DECIDE,))
        made: RequestRow = await deciding(name, *given, by=by, **named(request), **more)
        return made

    async def alike(self, request: ShownRequest) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments."""
        return await self.inbox.alike(request.item.request_id, by=self.by, **named(request))

    async def says_all(self, word: str, rows: Sequence[RequestRow], note: str | None) -> Sequence[Outcome]:
        """Say one word of several requests, of each as it was shown."""
        deciding = self.inbox.approve_all if word == "approve" else self.inbox.reject_all
        return await deciding(rows, by=self.by, note=note)

    async def edits(self, request: ShownRequest, typed: Mapping[str, str]) -> None:
        """Change arguments as they were typed, or raise what the tool has against it."""
        request.put_all(typed)
        request.preview()

    async def challenge(self, request: ShownRequest, verdict: Word, words: dict[str, Any]) -> bytes:
        """Return what this person signs who says that of exactly what was shown."""
        return await self.inbox.to_sign(request.item.request, verdict, **words)

    async def key(self) -> Path:
        """Return the file of the ssh key that this person signs with."""
        return own_key(self.person, await self.inbox.people.keys(self.person), self.keyfile)

    def signing(self, row: RequestRow) -> str:
        """Return the command that approves a request with a signature."""
        return f"keyturn approve {row.id[:12]} --digest {row.digest[:16]} --sign"

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
        trail = trail_of(log, row.call)
        return Detail(row, request, stands, context_of(log, row.call), trail, len(log.steps), was_started(trail))

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


def named(request: ShownRequest) -> Naming:
    """Return what was shown, as a word names it."""
    item = request.item
    return Naming(digest=item.digest, revision=item.request.revision)
