"""What people say of a request beside a decision: they are on it, they put it off, they take an approval back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

import msgspec

from ..core import commands as cm
from ..core import events as ev
from ..core.beside import too_late
from ..core.beside_events import Mark
from ..core.codec import Log
from ..core.errors import Conflict, NotPending
from ..core.request import request_of
from ..core.run import request_id
from ..core.states import WAITING
from ..directory.login import Login
from ..journal.rows import Query, RequestRow
from .counter import NO_SUCH
from .naming import By, Naming, Shown, ends_at, person_of, shown_of
from .reviewing import Reviewing
from .shows import is_left_out

CLAIM = "15m"


class Beside(Reviewing):
    """Lists requests for a person, marks them, and takes approvals back."""

    async def list(
        self,
        query: Query | None = None,
        *,
        for_: By | None = None,
        unclaimed: bool = False,
        by: By | None = None,
        **wanted: Any,
    ) -> Sequence[RequestRow]:
        """Return requests by when they were asked; the open ones, unless a query says otherwise.

        With `for_`, only those that this person may decide and did not put off; with `unclaimed`, none that somebody
        else is on. `by` says who reads them (`for_` does so too), which is put on record where the directory says so.
        """
        rows = await self._listed(query, for_, wanted, unclaimed=unclaimed)
        await self._read_by(by or for_, "list", rows)
        return rows

    async def _listed(
        self, query: Query | None, for_: By | None, wanted: dict[str, Any], *, unclaimed: bool
    ) -> Sequence[RequestRow]:
        wanted.setdefault("state", "open")
        asked = query or Query(**wanted)
        if for_ is None and not unclaimed:
            return await self._store.requests(asked)
        now = await self._store.now()
        found: list[RequestRow] = []
        while len(found) < asked.limit:
            page = await self._store.requests(asked)
            for row in page:
                if await self._shows(row, for_, now, unclaimed=unclaimed):
                    found.append(row)
            if len(page) < asked.limit:
                break
            asked = msgspec.structs.replace(asked, after=page[-1].place)
        return found[: asked.limit]

    async def get(self, request: str, *, for_: By | None = None, by: By | None = None) -> RequestRow:
        """Return one request, whatever became of it, or raise `NotPending`.

        What it shows is read from the run's own log. With `for_`, a request that this person may not decide is as
        unknown as one that there is not. `by` says who reads it (`for_` does so too), which is put on record where the
        directory says so.
        """
        row = await self._row(request)
        if for_ is not None and row.state != "damaged" and not await self._may_see(row, for_):
            raise NotPending(NO_SUCH)
        await self._read_by(by or for_, "request", [row])
        if row.state != "open":
            return row
        if row.kind == "review":
            asked = await self._review_shown(row)
            return await self._row(request) if asked is None else RequestRow.of(asked)
        run = (await self._read(row.run)).run
        call = run.calls.get(row.call)
        if call is None or call.state not in WAITING or request_id(run, row.call) != row.id:
            return await self._row(request)  # it was settled between the two
        return RequestRow.of(request_of(run, call))

    async def take(
        self,
        request: Shown,
        *,
        by: By,
        until: datetime | None = None,
        lasts: str | float | None = None,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Say that you are on it, for 15 minutes unless you say until when; it restricts nobody.

        Who takes over what somebody else is on, is on it from then on; both are on record.
        """
        lasts = CLAIM if until is None and lasts is None else lasts
        return await self._mark(request, "claim", by, words, (until, lasts))

    async def let_go(self, request: Shown, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Say that you are not on it any more."""
        return await self._mark(request, "claim", by, words)

    async def snooze(
        self,
        request: Shown,
        *,
        by: By,
        until: datetime | None = None,
        lasts: str | float | None = None,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Put a request off, for yourself alone: `list(for_=...)` leaves it out until then."""
        return await self._mark(request, "snooze", by, words, (until, lasts))

    async def wake(self, request: Shown, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Have a request back that you put off."""
        return await self._mark(request, "snooze", by, words)

    async def withdraw(self, request: Shown, *, by: By, run: str | None = None, **words: Unpack[Naming]) -> RequestRow:
        """Take an approval back before it is executed; the call asks anew.

        Whoever may decide the call may do so, and whoever approved it. `Conflict` says by whom and when the call was
        started, where it was. `run` is needed only for a call that a standing decision let run unasked: nobody has a
        row of its request yet.
        """
        name, digest = (request, words.get("digest")) if isinstance(request, str) else shown_of(request, words)[:2]
        if run is None:
            run = (await self._row(name)).run
        log = await self._read(run)
        call = next((call for call in (*log.run.calls, *log.run.decided) if request_id(log.run, call) == name), None)
        if call is None:
            raise NotPending(NO_SUCH)
        live = log.run.calls.get(call)
        terms = None if live is None else live.terms
        who = await self._who(by, terms, log.run.requester)
        try:
            await self._commit(log, cm.Withdraw(call, who, digest, words.get("note")), *self._resumed(log))
        except Conflict as error:
            start = None if error.decision == "start" else _last_start(log, call)
            raise error if start is None else start from None
        return await self._row(name)

    async def _mark(
        self,
        request: Shown,
        mark: Mark,
        by: By,
        words: Naming,
        time: tuple[datetime | None, str | float | None] | None = None,
    ) -> RequestRow:
        shown = shown_of(request, words)
        log, waiting = await self._waiting(shown)
        until = None if time is None else ends_at(await self._store.now(), *time)
        who = await self._who(by, waiting.terms, waiting.requester)
        await self._commit(log, cm.MarkCall(waiting.call, waiting.digest, mark, who, until))
        return await self._row(shown.id)

    async def _shows(self, row: RequestRow, for_: By | None, now: int, *, unclaimed: bool) -> bool:
        """Return whether a list for somebody has a request; what cannot be read is shown to everybody."""
        if row.state == "damaged":
            return True
        person = "" if for_ is None else _name_of(for_)
        if is_left_out(row, person, now, mine=for_ is not None, unclaimed=unclaimed):
            return False
        return for_ is None or await self._may_see(row, for_)


def _last_start(log: Log, call: str) -> Conflict | None:
    """Return what to tell of a call that the run does not hold any more: by whom it was started, and when."""
    for step in reversed(log.steps):
        for event in step.events:
            if isinstance(event, ev.CallStarted) and event.call == call:
                return too_late(event.by, step.at)
    return None


def _name_of(by: By) -> str:
    return by.person if isinstance(by, Login) else person_of(by).id
