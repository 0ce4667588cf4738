"""List and show requests and standing decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack, cast

import msgspec

from ..core.errors import NotPending, UserError
from ..core.request import request_of
from ..core.run import edit_digest, request_id
from ..core.states import WAITING
from ..directory.login import Login
from ..engine.run.log_cache import log_in
from ..engine.states.undelivered import edited
from ..engine.views.items import ToolApprovalItem
from ..journal.rows import ALL, DeliveryQuery, GrantRow, Query, RequestRow
from ..presenting.edit_preview import EditPreview
from ..presenting.message_context import Context, context_of
from ..presenting.notifications import SHOWN, Notification, notifications_of
from ..presenting.shown_request import ShownRequest
from ..presenting.source import RequestSource
from ..presenting.trail import TrailMark, trail_of
from .naming import By as By
from .naming import Naming, Shown, person_of, shown_of
from .request_store import NO_SUCH, RequestStore
from .shows import is_from, is_left_out

_PAGE = 500
#: How many requests without a shape in their column are read for a page of those that are alike.
LOOKS = 2_000


class Reading:
    """Lists and shows requests and standing decisions."""

    _requests: RequestStore

    async def list(
        self,
        query: Query | None = None,
        *,
        for_: By | None = None,
        unclaimed: bool = False,
        by: By | None = None,
        source: RequestSource | None = None,
        **wanted: Any,
    ) -> Sequence[RequestRow]:
        """Return requests by when they were asked; the open ones, unless a query says otherwise.

        With `for_`, only those that this person may decide and did not put off; with `unclaimed`, none that somebody
        else is on; with a `source`, those that state that they come from there. `by` says who reads them (`for_` does
        so too), which is put on record where the directory says so.
        """
        rows = await self._listed(query, for_, wanted, unclaimed=unclaimed, source=source or RequestSource())
        await self._requests.note_reading(by or for_, "list", rows)
        return rows

    async def _listed(
        self, query: Query | None, for_: By | None, wanted: dict[str, Any], *, unclaimed: bool, source: RequestSource
    ) -> Sequence[RequestRow]:
        wanted.setdefault("state", "open")
        asked = query or Query(**wanted)
        if for_ is None and not unclaimed and not any(source):
            return await self._requests.store.requests(asked)
        now = await self._requests.store.now()
        found: list[RequestRow] = []
        while len(found) < asked.limit:
            page = await self._requests.store.requests(asked)
            for row in page:
                if is_from(row, source) and await self._shows(row, for_, now, unclaimed=unclaimed):
                    found.append(row)
            if len(page) < asked.limit:
                break
            asked = msgspec.structs.replace(asked, after=page[-1].place)
        return found[: asked.limit]

    async def _shows(self, row: RequestRow, for_: By | None, now: int, *, unclaimed: bool) -> bool:
        """Return whether a list for somebody has a request; what cannot be read is shown to everybody."""
        if row.state == "damaged":
            return True
        person = "" if for_ is None else _name_of(for_)
        if is_left_out(row, person, now, mine=for_ is not None, unclaimed=unclaimed):
            return False
        return for_ is None or await self._requests.may_see(row, for_)

    async def get(self, request: str, *, for_: By | None = None, by: By | None = None) -> RequestRow:
        """Return one request, whatever became of it, or raise `NotPending`.

        What it shows is read from the run's own log. With `for_`, a request that this person may not decide is as
        unknown as one that there is not. `by` says who reads it (`for_` does so too), which is put on record where the
        directory says so.
        """
        row = await self._requests.row(request)
        if for_ is not None and row.state != "damaged" and not await self._requests.may_see(row, for_):
            raise NotPending(NO_SUCH)
        await self._requests.note_reading(by or for_, "request", [row])
        if row.state != "open":
            return row
        if row.kind == "review":
            asked = await self._requests.review_shown(row)
            return await self._requests.row(request) if asked is None else RequestRow.of(asked)
        run = (await self._requests.log(row.run)).run
        call = run.calls.get(row.call)
        if call is None or call.state not in WAITING or request_id(run, row.call) != row.id:
            return await self._requests.row(request)  # it was settled between the two
        return RequestRow.of(request_of(run, call))

    async def item(self, request: str, *, by: By | None = None) -> ToolApprovalItem:
        """Return an open request with its tool at hand, by which a change of its arguments can be checked and shown.

        `by` says who reads it, which is put on record where the directory says so.
        """
        row = await self._requests.row(request)
        await self._requests.note_reading(by, "request", [row])
        item, _call = await self._requests.item_of(await self._requests.log(row.run), row.request)
        return item

    async def context(self, row: RequestRow) -> Context:
        """Return what was said before the call of a request, and how the model's words press whoever reads them."""
        return context_of((await self._requests.log(row.run)).steps, row.call)

    async def trail(self, row: RequestRow) -> list[TrailMark]:
        """Return what happened to the call of a request so far, oldest first: votes, decisions, edits, its result."""
        return trail_of((await log_in(self._requests.store, row.run)).steps, row.call)

    async def notified(self, row: RequestRow) -> list[Notification]:
        """Return who was notified of a request, by which channel, when, and whether it was delivered."""
        store = self._requests.store
        found = await store.deliveries(DeliveryQuery(subject=row.id, sent=True, limit=SHOWN))
        return notifications_of(found, await store.now())

    async def preview_edit(self, request: Shown, edit: Mapping[str, Any], **words: Unpack[Naming]) -> EditPreview:
        """Return what approving a request with these arguments would run, as its tool checks it; nothing is recorded.

        A secret is left as it is by the mark that is shown in its place.
        """
        log, waiting = await self._requests.waiting(shown_of(request, words))
        item, call = await self._requests.item_of(log, waiting)
        shown = ShownRequest(item)
        if not shown.editable or call is None:
            raise UserError(f"the arguments of {waiting.tool!r} cannot be edited; approve or reject the call as it is")
        if not isinstance(cast("object", edit), Mapping):
            raise UserError("edit must be a mapping of all arguments by their names")
        edited(item, edit, call)  # which says what the tool has against them
        shown.take(dict(edit))
        made = await asyncio.to_thread(shown.previewed)
        checked = edited(item, edit, call, made.would)
        # Equal digests would tell that a secret was guessed right.
        runs = "" if checked is None or shown.types_secret else edit_digest(log.run, call, checked.args, checked.basis)
        return msgspec.structs.replace(made, runs=runs)

    async def alike(
        self, request: Shown, query: Query = ALL, *, by: By | None = None, **words: Unpack[Naming]
    ) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments, this one among them, of whatever run.

        Their arguments are compared as they are. A call with secrets is like calls of its own run alone: elsewhere
        nobody can try which secret it has. `query` says which requests are looked at.
        """
        found: list[RequestRow] = []
        asked: Query | None = query
        while asked is not None:
            page, after = await self.alike_page(request, asked, **words)
            found += page
            asked = None if after is None else msgspec.structs.replace(asked, after=after)
        await self._requests.note_reading(by, "list", found)
        return found

    async def alike_page(
        self, request: Shown, query: Query = ALL, *, looks: int = LOOKS, **words: Unpack[Naming]
    ) -> tuple[Sequence[RequestRow], tuple[int, str] | None]:
        """Return a page of them, and where the next one begins, if there is one.

        The index of shapes gives a page. Of open requests without a shape in their column, which an earlier version
        wrote, no more than `looks` are read for it. Nobody is said to have read anything.
        """
        _, waiting = await self._requests.waiting(shown_of(request, words))
        asked = msgspec.structs.replace(query, state="open", tool=waiting.tool, limit=_PAGE)
        found, ends = list[RequestRow](), list[tuple[int, str]]()
        if waiting.shape:
            same = msgspec.structs.replace(asked, shape=waiting.shape, tool=query.tool)  # it is of one tool anyway
            found += await self._requests.store.requests(same)
            ends += [found[-1].place] if len(found) == _PAGE else []
        older = msgspec.structs.replace(asked, kind=query.kind or waiting.kind, shape="")
        for _ in range(-(-looks // _PAGE)):
            page = await self._requests.store.requests(older)
            found += page
            if len(page) < _PAGE:
                break
            older = msgspec.structs.replace(older, after=page[-1].place)
            await asyncio.sleep(0)  # others are served meanwhile
        else:
            ends += [] if older.after is None else [older.after]
        alike = {row.id: row for row in found if (row.tool, row.shape) == (waiting.tool, waiting.shape)}
        return _up_to([*alike.values()], ends, newest=query.newest)

    async def alike_among(
        self, request: Shown, rows: Iterable[RequestRow], **words: Unpack[Naming]
    ) -> Sequence[RequestRow]:
        """Return those of some requests that are open, of the same tool and with the same arguments."""
        _, waiting = await self._requests.waiting(shown_of(request, words))
        wanted = ("open", waiting.tool, waiting.shape)
        return [row for row in rows if (row.state, row.tool, row.shape) == wanted]

    async def grants(self, query: Query = ALL) -> Sequence[GrantRow]:
        """Return standing decisions."""
        return await self._requests.store.grants(query)


def _up_to(
    rows: list[RequestRow], ends: list[tuple[int, str]], *, newest: bool
) -> tuple[list[RequestRow], tuple[int, str] | None]:
    """Return the rows in order up to the first place that both readings reached, and that place if either goes on."""
    rows.sort(key=lambda row: row.place, reverse=newest)
    if not ends:
        return rows, None
    end = max(ends) if newest else min(ends)
    return [row for row in rows if (row.place >= end if newest else row.place <= end)], end


def _name_of(by: By) -> str:
    return by.person if isinstance(by, Login) else person_of(by).id
