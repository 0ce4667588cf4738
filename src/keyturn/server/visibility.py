"""Say what of a tenant somebody sees: one answer for every door of the server.

Whoever may read sees their tenant. Where the directory's setting `visible` is "own", they see what they may decide or
asked for, and administrators see all. What somebody does not see is, to them, not there: it is refused with the words
for what there is not, and after the same time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence

from msgspec.structs import replace

from ..application.app import App
from ..core.approval import Approval
from ..core.errors import NotAllowed, NotPending, RunMissing
from ..core.people import Decider, kept_out
from ..core.request import Request
from ..directory.read_lines import How
from ..directory.settings import OWN, VISIBLE
from ..directory.state import ADMIN
from ..engine.run.log_cache import log_in
from ..inbox.request_store import NO_SUCH
from ..inbox.shows import is_from, is_left_out, may_decide
from ..journal.rows import GrantRow, Query, RequestRow, RunRow
from ..presenting.source import RequestSource
from .visitor import Visitor

# Nothing that is looked for and not seen is answered sooner, so that the time tells nobody whether it is there.
_SAME_TIME = 0.1
_PAGE = 200
_MOST = 500
_NAME = re.compile(r"[0-9A-Za-z_.@-]{1,100}")


class Visibility:
    """Says what one visitor sees, as the directory stood when they asked."""

    def __init__(self, app: App, visitor: Visitor, now: int) -> None:
        self._app = app
        self._now = now
        self.visitor = visitor
        #: Whether they see all of their tenant.
        self.whole = visitor.directory.settings.get(VISIBLE) != OWN or ADMIN in visitor.roles
        #: Whether a token of theirs that may not read sees the runs that it may steer, and no others.
        self._steers_only = visitor.person.kind == "person" and not (visitor.may("read") or visitor.may("decide"))
        self._begun = time.monotonic()

    @classmethod
    async def of(cls, app: App, visitor: Visitor) -> Visibility:
        """Look up what somebody sees."""
        return cls(app, visitor, await app.inbox.now())

    def sees(self, row: RequestRow) -> bool:
        """Return whether they see a request."""
        if self.whole:
            return True
        if row.state == "damaged":
            return False
        shown = row.request
        return shown.requester == self.visitor.id or self._takes_part(shown) or self._may_break_glass(shown)

    def may_decide(self, request: Request) -> bool:
        """Return whether they may decide a request, in the step that is due, a signature aside."""
        who = self._decider(request.terms_now, request.requester)
        return who is not None and may_decide(request, who)

    def must_decide(self, request: Request) -> None:
        """Refuse whoever may not decide a request, before anything that they sent is compared with it."""
        voted = request.kind != "review" and self.visitor.id in request.not_for  # they can withdraw it
        if not (voted or self._takes_part(request) or self._may_break_glass(request)):
            raise NotAllowed(f"you cannot decide this request of {request.tool!r}: its terms name others")

    def _takes_part(self, request: Request) -> bool:
        """Return whether they may decide a request in one of its steps, met or not."""
        steps = () if request.kind == "review" else request.every_step
        return self.may_decide(request) or any(self._may(each, request.requester) for each in steps)

    def _may_break_glass(self, request: Request) -> bool:
        """Return whether they may approve a request alone in an emergency."""
        terms = None if request.kind == "review" else request.behind_glass
        return terms is not None and self._may(terms, request.requester)

    def _may(self, terms: Approval, requester: str | None) -> bool:
        who = self._decider(terms, requester)
        return who is not None and not kept_out(terms, who, requester)

    def _decider(self, terms: Approval | None, requester: str | None) -> Decider | None:
        if self.visitor.person.kind == "machine":
            return None
        return self.visitor.directory.decider(self.visitor.id, self._now, "authenticated", terms, requester)

    def lists(self, row: RequestRow, *, mine: bool, unclaimed: bool, source: RequestSource | None = None) -> bool:
        """Return whether a list of theirs has a request, with a `source` one that states that it comes from there."""
        if not self.sees(row) or not is_from(row, source or RequestSource()):
            return False
        if row.state == "damaged":
            return True
        if is_left_out(row, self.visitor.id, self._now, mine=mine, unclaimed=unclaimed):
            return False
        return not mine or self.may_decide(row.request)

    async def request(self, request: str, *, shows: bool = False) -> RequestRow:
        """Return a request that they see, or raise `NotPending`; with `shows` they are shown its arguments."""
        row = await self._found(request)
        if row is None or not self.sees(row):
            await self._wait()
            raise NotPending(NO_SUCH)
        if shows:
            await self.reads("request", [row])
        return row

    async def _found(self, request: str) -> RequestRow | None:
        """Return a request if there is one that they may see: nobody's log is read for whoever may not."""
        if not _is_name(request):
            return None
        if not self.whole and not any(map(self.sees, await self._app.journal.requests(Query(id=request)))):
            return None
        try:
            return await self._app.inbox.get(request)
        except NotPending:
            return None

    async def reads(self, how: How, rows: Sequence[RequestRow]) -> None:
        """Put on record that they are about to be shown these, where the directory says so."""
        if rows:
            await self._app.inbox.reads.note(self.visitor.login, how, [row.id for row in rows])

    async def reads_of(self, how: How, what: str) -> None:
        """Put on record that they are about to be shown what was made of the arguments of many calls."""
        await self._app.inbox.reads.note(self.visitor.login, how, what=what)

    async def reads_log(self, run: str) -> None:
        """Put on record that they are about to be shown the log of a run, with the requests that are in it."""
        asked = await self._app.journal.requests(Query(run=run, limit=_MOST))
        await self._app.inbox.reads.note(self.visitor.login, "log", [row.id for row in asked], what=run)

    async def run(self, run: str) -> RunRow:
        """Return a run that they see, or raise `RunMissing`."""
        try:
            row = await self._app.get(run) if _is_name(run) else None
        except RunMissing:
            row = None
        if row is None or not await self.sees_run(row):
            await self._wait()
            raise RunMissing(run)
        return row

    async def sees_run(self, row: RunRow) -> bool:
        """Return whether they see a run: one that runs for them, or of which they see a request."""
        if self.whole and not self._steers_only:
            return True
        if row.status in ("erased", "damaged"):
            return False
        if self._steers_only:
            return await self._requester(row.run) in (None, self.visitor.id)
        query: Query | None = Query(run=row.run, limit=_PAGE)
        asked = False  # whether a request says for whom the run is: no log is read
        while query is not None:
            page = await self._app.journal.requests(query)
            if any(map(self.sees, page)):
                return True
            asked = asked or any(each.state != "damaged" for each in page)
            query = replace(query, after=page[-1].place) if len(page) == _PAGE else None
        return not asked and await self._requester(row.run) == self.visitor.id

    async def runs(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Return those of some runs that they see."""
        found = list[RunRow]()
        for row in rows:
            found += [row] if await self.sees_run(row) else []
            await asyncio.sleep(0)  # others are served meanwhile
        return found

    async def grants(self, rows: Sequence[GrantRow]) -> list[GrantRow]:
        """Return those of some standing decisions that they see: those of runs that they see."""
        if self.whole:
            return list(rows)
        runs = {row.run: await self._app.journal.runs(Query(run=row.run)) for row in rows}
        known = {name for name, found in runs.items() if found and await self.sees_run(found[0])}
        return [row for row in rows if row.run in known]

    async def may_control(self, run: str) -> RunRow:
        """Return a run that they may tell things, fork and resume, or refuse it.

        A person steers what runs for them, and what runs for nobody in particular: whoever tells another's run what to
        do makes requests that are not theirs. A machine steers what it sees.
        """
        row = await self.run(run)
        if self.visitor.person.kind == "machine" or row.status in ("erased", "damaged"):
            return row
        requester = await self._requester(run)
        if requester not in (None, self.visitor.id):
            raise NotAllowed(f"this run acts for {requester!r}, and nobody else tells it what to do")
        return row

    def must_administer(self) -> None:
        """Refuse what only administrators may ask for."""
        if ADMIN not in self.visitor.roles:
            raise NotAllowed("this requires the role 'admin'")

    def must_see_all(self) -> None:
        """Refuse what tells of everybody, where they see only what concerns them."""
        if not self.whole:
            raise NotAllowed("the directory lets people see only what concerns them: ask an administrator")

    async def _requester(self, run: str) -> str | None:
        return (await log_in(self._app.journal, run)).run.requester

    async def _wait(self) -> None:
        left = self._begun + _SAME_TIME - time.monotonic()
        await asyncio.sleep(max(left, 0))


def _is_name(text: str) -> bool:
    """Return whether that could be the id of anything: no store is asked for what none can hold."""
    return _NAME.fullmatch(text) is not None
