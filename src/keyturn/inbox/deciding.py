"""Record what people decide of requests, one by one and several at once.

Besides the engine nothing else writes to a journal. A decision is decided by the core against the run as it stands and
appended with the rows that it changes; the second of two learns who was first. Its run is due from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack, cast

from ..core import commands as cm
from ..core.beside_events import ReviewWord
from ..core.durations import milliseconds
from ..core.errors import KeyturnError, NotPending, UserError
from ..core.gate.reviews import reviewed_call
from ..core.gate.words import decided_before
from ..core.preview import REDACTED, Preview, redact
from ..core.records import Word
from ..core.request import Request, review_of
from ..core.run import request_id
from ..core.states import WAITING
from ..engine.facts import decisions
from ..engine.facts.reaches import reach_of
from ..engine.views.items import ToolApprovalItem
from ..journal.rows import RequestRow
from ..policies.grants import Grant
from .naming import By as By
from .naming import Naming, Outcome, Shown, named, shown_of
from .request_store import RequestStore
from .signed_words import SignedWords, WordsToSign, challenge_of

Make = Callable[..., decisions.MadeDecision]


class Deciding:
    """Records decisions; `by` is a name, a `Decider(...)` or a login."""

    _requests: RequestStore

    async def approve(
        self,
        request: Shown,
        *,
        by: By,
        edit: Mapping[str, Any] | str | None = None,
        grant: Grant | None = None,
        seen: Preview | None = None,
        break_glass: bool = False,
        undo: str | float | None = None,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Approve exactly this call, or with other arguments, or from now on what a grant covers.

        With `break_glass`, alone and with a `note`, where the terms name a role that may: others are told. With `undo`
        ("5s"), the call starts so much later, and the approval can be withdrawn until then.
        """
        shown = shown_of(request, words)
        log, waiting = await self._requests.waiting(shown)
        now = await self._requests.store.now()  # first: what admits the decider holds at that time
        told = await self._requests.words(by, words, waiting, glass=break_glass)
        if edit is not None:  # before the tool compares anything that they sent with the call
            decisions.check_may(waiting, told)
        made = None if edit is None else await self._requests.checked(log, waiting, edit, seen)
        reach = reach_of(grant, log.run, self._requests.store)
        held = 0 if undo is None else milliseconds(undo)
        given: Any = {"edit": made, "grant": grant, "reach": reach, "broke_glass": break_glass, "undo_ms": held}
        said = decisions.approve(waiting, now, **given, **told)
        if said.grant is not None:
            await self._requests.people.check_grant(by, said.grant.expires_at)
        return await self._requests.deliver(log, shown, said)

    async def reject(
        self,
        request: Shown,
        *,
        by: By,
        message: str | None = None,
        always: bool = False,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Reject the call; its model is told `message`.

        `always` rejects later calls of the tool in this run, too.
        """
        return await self._decided(partial(decisions.reject, message=message, always=always), request, by, words)

    async def ask_back(self, request: Shown, question: str, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Ask the agent back: the call does not run, and its model answers the question and may propose it again."""
        return await self._decided(partial(decisions.ask_back, question=question), request, by, words)

    async def answer(self, request: Shown, output: object, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Give the call's result in its tool's place, or what its tool asked for."""
        return await self._decided(partial(decisions.answer, output=output), request, by, words)

    async def resolve(
        self,
        request: Shown,
        outcome: Literal["ran", "did_not_run", "retry"],
        output: object = None,
        *,
        by: By,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Record what became of a call in doubt."""
        return await self._decided(partial(decisions.resolve, outcome=outcome, output=output), request, by, words)

    async def _decided(self, make: Make, request: Shown, by: By, words: Naming) -> RequestRow:
        """Make a decision of the request as it stands now, and record it."""
        shown = shown_of(request, words)
        log, waiting = await self._requests.waiting(shown)
        now = await self._requests.store.now()
        made = make(waiting, now, **await self._requests.words(by, words, waiting))
        return await self._requests.deliver(log, shown, made)

    async def review(self, request: Shown, verdict: ReviewWord, *, by: By, **words: Unpack[Naming]) -> RequestRow:
        """Say whether a call was "right" or "wrong" to let run; it stays as it is, and its run may be over.

        Whoever it was let run on the word of is not asked. "wrong" needs a `note`.
        """
        shown = shown_of(request, words)
        row = await self._requests.row(shown.id)
        log = await self._requests.log(row.run)
        call = reviewed_call(row.call)
        review = None if call is None else log.run.reviews.get(call)
        if call is None or review is None or request_id(log.run, row.call) != row.id:
            raise NotPending("this request is not a review: approve(), reject() or answer() it")
        asked = review_of(log.run, review)
        stale = shown.revision not in (None, asked.revision)
        digest = "" if stale else asked.digest if shown.digest is None else shown.digest
        who = await self._requests.who(by, asked.terms, asked.requester)
        await self._requests.commit(log, cm.GiveReview(call, digest, verdict, who, words.get("note")))
        return await self._requests.row(shown.id)

    async def to_sign(
        self,
        request: Shown,
        verdict: Word,
        *,
        edit: Mapping[str, Any] | str | None = None,
        seen: Preview | None = None,
        **words: Unpack[WordsToSign],
    ) -> bytes:
        """Return what somebody signs who decides so, with the very words of the decision; it fits no other.

        Raises `Conflict` for a request that was decided, and `NotPending` for a review, which nobody signs.
        """
        named = Naming(digest=words.pop("digest", None), revision=words.pop("revision", None))
        words.pop("proof", None)
        log, waiting = await self._requests.waiting(shown_of(request, named))
        call = log.run.calls.get(waiting.call)
        if call is None or call.state not in WAITING:
            if (before := log.run.decided.get(waiting.call)) is not None:
                raise decided_before(before)
            raise NotPending("there is nothing to sign: no pending call matches that decision; get() shows it")
        if (
            redact(cast("Any", edit), waiting.secrets) != edit
        ):  # equal challenges would tell that a secret was guessed right
            raise UserError(f"an edit is signed with {REDACTED} in the place of each secret: leave it as it is shown")
        made = None if edit is None else await self._requests.checked(log, waiting, edit, seen)
        return challenge_of(self._requests.people.tenant, waiting, verdict, made, **cast("SignedWords", words))

    async def approve_all(
        self,
        requests: Iterable[RequestRow | Request | ToolApprovalItem],
        *,
        by: By,
        note: str | None = None,
        undo: str | float | None = None,
    ) -> Sequence[Outcome]:
        """Approve each of these requests, as it was shown; return what became of each, in their order.

        Each is decided by itself: one that is refused holds up none of the others. `undo` is as in `approve`.
        """
        return [await _outcome(each, self.approve(each, by=by, note=note, undo=undo)) for each in _several(requests)]

    async def reject_all(
        self,
        requests: Iterable[RequestRow | Request | ToolApprovalItem],
        *,
        by: By,
        message: str | None = None,
        note: str | None = None,
    ) -> Sequence[Outcome]:
        """Reject each of these requests, as it was shown; return what became of each, in their order."""
        return [
            await _outcome(each, self.reject(each, by=by, message=message, note=note)) for each in _several(requests)
        ]

    async def revoke(self, run: str, grant: str, *, by: By) -> None:
        """Revoke a standing decision; what it let run before stays.

        Anybody may revoke an approval. A rejection is revoked by those whom the terms of its call let decide.
        """
        log = await self._requests.log(run)
        given = log.run.grants.get(named(grant, "a grant"))
        who = await self._requests.who(by, None if given is None else given.terms, log.run.requester)
        await self._requests.commit(log, cm.Revoke(grant, who))


def _several(requests: Iterable[Shown]) -> list[Shown]:
    """Return requests that were shown, all of them: none of them is decided where one is none."""
    listed: list[Shown] = [requests] if isinstance(requests, str) else [*requests]
    for each in listed:
        shown_of(each, Naming())
    return listed


async def _outcome(request: Shown, deciding: Coroutine[Any, Any, RequestRow]) -> Outcome:
    name = shown_of(request, Naming()).id
    try:
        return Outcome(name, await deciding)
    except KeyturnError as error:
        return Outcome(name, error=error)
