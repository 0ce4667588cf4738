"""Looks and reviews: who had a request on the screen, and what others say of a call that was let run."""

from __future__ import annotations

from typing import Unpack

from ..core import commands as cm
from ..core.beside_events import ReviewWord
from ..core.errors import NotAllowed, NotPending
from ..core.request import Request, review_of
from ..core.reviews import reviewed_call
from ..core.run import request_id
from ..directory.login import Login
from ..journal.rows import Notice, RequestRow
from .counter import Counter
from .naming import By, Naming, Shown, named, person_of, shown_of
from .shows import may_decide


class Reviewing(Counter):
    """Records looks and reviews, and says which requests somebody may see."""

    async def looked(self, request: Shown, *, by: By, **words: Unpack[Naming]) -> None:
        """Note that somebody has a request on the screen, so that they are not told of it by further channels.

        Of somebody who is known for sure it goes on record since when, once as the request is asked now: an approval on
        terms with `min_look=` needs that. For this the request itself is passed, or its id with what of it was shown.
        Of one that waits no longer nothing is noted.
        """
        name = request if isinstance(request, str) else shown_of(request, words).id
        row = await self._row(named(name, "a request"))
        if row.state != "open":
            return
        bound = not isinstance(request, str) or words.get("digest") or words.get("revision")
        known = isinstance(by, Login) or person_of(by).strength != "claimed"
        if known and bound and row.kind != "review":
            log, waiting = await self._waiting(shown_of(request, words))
            who = await self._who(by, waiting.terms, waiting.requester)
            await self._commit(log, cm.Look(waiting.call, waiting.digest, who))
            return
        person = (await self._who(by)).id
        about = {"at": await self._store.now(), "request": row.id, "person": person}
        await self._store.tell([Notice("request.looked", row.run, about)])

    async def review(self, request: Shown, verdict: ReviewWord, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Say whether a call was "right" or "wrong" to let run; it stays as it is, and its run may be over.

        Whoever it was let run on the word of is not asked. "wrong" needs a `note`.
        """
        shown = shown_of(request, words)
        row = await self._row(shown.id)
        log = await self._read(row.run)
        call = reviewed_call(row.call)
        review = None if call is None else log.run.reviews.get(call)
        if call is None or review is None or request_id(log.run, row.call) != row.id:
            raise NotPending("this request is no review: approve(), reject() or answer() it")
        asked = review_of(log.run, review)
        stale = shown.revision not in (None, asked.revision)
        digest = "" if stale else asked.digest if shown.digest is None else shown.digest
        who = await self._who(by, asked.terms, asked.requester)
        await self._commit(log, cm.GiveReview(call, digest, verdict, who, words.get("note")))
        return await self._row(shown.id)

    async def _may_see(self, row: RequestRow, for_: By) -> bool:
        """Return whether somebody may decide a request, a signature aside."""
        shown = row.request
        try:
            who = await self._who(for_, shown.terms, shown.requester, scopes=())
        except NotAllowed:
            return False
        return may_decide(shown, who)

    async def _review_shown(self, row: RequestRow) -> Request | None:
        """Return a review as its run's own log says it; None where it asks nobody any more."""
        run = (await self._read(row.run)).run
        review = run.reviews.get(reviewed_call(row.call) or "")
        open = review is not None and review.said is None and request_id(run, row.call) == row.id
        return review_of(run, review) if review is not None and open else None
