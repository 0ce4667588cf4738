"""Record what people mark beside a decision: they look, claim, snooze, and withdraw an approval."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from msgspec.structs import replace

from ..core import commands as cm
from ..core import events as ev
from ..core.beside_events import Mark
from ..core.codec import Log
from ..core.digest import digest as digest_of
from ..core.errors import Conflict, NotPending, UserError
from ..core.gate.marks import own_vote, too_late, withdrawal_of
from ..core.people import Strength, plain_text
from ..core.run import request_id
from ..core.states import WAITING
from ..directory.login import Login
from ..journal.rows import Notice, RequestRow
from .naming import By, Naming, Shown, ends_at, named, person_of, shown_of
from .request_store import NO_SUCH, RequestStore

CLAIM = "15m"


class Marking:
    """Records what people mark beside a decision: looks, claims, snoozes, and approvals that they withdraw."""

    _requests: RequestStore

    async def looked(self, request: Shown, *, by: By, **words: Unpack[Naming]) -> None:
        """Note that somebody has a request on the screen, so that they are not told of it by further channels.

        Of somebody who is known for sure it goes on record since when, once as the request is asked now: an approval on
        terms with `min_look=` needs that. For this the request itself is passed, or its id with what of it was shown.
        Of one that waits no longer nothing is noted.
        """
        name = request if isinstance(request, str) else shown_of(request, words).id
        row = await self._requests.row(named(name, "a request"))
        if row.state != "open":
            return
        bound = not isinstance(request, str) or words.get("digest") or words.get("revision")
        known = isinstance(by, Login) or person_of(by).strength != "claimed"
        if known and bound and row.kind != "review":
            log, waiting = await self._requests.waiting(shown_of(request, words))
            who = await self._requests.who(by, waiting.terms, waiting.requester)
            await self._requests.commit(log, cm.RecordLook(waiting.call, waiting.digest, who))
            return
        person = (await self._requests.who(by)).id
        about = {"at": await self._requests.store.now(), "request": row.id, "person": person}
        await self._requests.store.tell([Notice("request.looked", row.run, about)])

    async def take(
        self,
        request: Shown,
        *,
        by: By,
        until: datetime | None = None,
        lasts: str | float | None = None,
        once: str | None = None,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Say that you are on it, for 15 minutes unless you say until when; it restricts nobody.

        Who takes over what somebody else is on, is on it from then on; both are on record. `once` names the mark, here
        and below, so that it is made once when repeated.
        """
        lasts = CLAIM if until is None and lasts is None else lasts
        return await self._mark(request, "claim", by, words, once, (until, lasts))

    async def let_go(self, request: Shown, *, by: By, once: str | None = None, **words: Unpack[Naming]) -> RequestRow:
        """Say that you are not on it any more."""
        return await self._mark(request, "claim", by, words, once)

    async def snooze(
        self,
        request: Shown,
        *,
        by: By,
        until: datetime | None = None,
        lasts: str | float | None = None,
        once: str | None = None,
        **words: Unpack[Naming],
    ) -> RequestRow:
        """Put a request off, for yourself alone: `list(for_=...)` leaves it out until then."""
        return await self._mark(request, "snooze", by, words, once, (until, lasts))

    async def wake(self, request: Shown, *, by: By, once: str | None = None, **words: Unpack[Naming]) -> RequestRow:
        """Have a request back that you put off."""
        return await self._mark(request, "snooze", by, words, once)

    async def withdraw(
        self, request: Shown, *, by: By, run: str | None = None, once: str | None = None, **words: Unpack[Naming]
    ) -> RequestRow:
        """Withdraw your own vote while the request is open, or an approval before its call starts; then it asks anew.

        An approval is withdrawn by whoever may decide the call, and by whoever approved it. `Conflict` says by whom and
        when the call was started, where it was. The withdrawal of a signed vote is signed: pass `proof=`, made from
        `to_sign(request, "withdraw")`. `run` is needed only for a call that a standing decision let run unasked: nobody
        has a row of its request yet. `once` names the withdrawal, so that it takes no later approval back when
        repeated.
        """
        name, digest = (request, words.get("digest")) if isinstance(request, str) else shown_of(request, words)[:2]
        if run is None:
            run = (await self._requests.row(name)).run
        log = await self._requests.log(run)
        call = next((call for call in (*log.run.calls, *log.run.decided) if request_id(log.run, call) == name), None)
        if call is None:
            raise NotPending(NO_SUCH)
        command = await self._withdrawal(log, call, by, words)
        command = replace(command, digest=digest, once=_named("withdraw", name, once))
        try:
            await self._requests.commit(log, command)
        except Conflict as error:
            start = None if error.decision == "start" else _last_start(log, call)
            raise error if start is None else start from None
        return await self._requests.row(name)

    async def _withdrawal(self, log: Log, name: str, by: By, words: Naming) -> cm.Withdraw:
        """Return the command that withdraws what somebody has on a call now, its signature verified."""
        call = log.run.calls.get(name)
        note = words.get("note")
        proof = words.get("proof")
        strength: Strength = "authenticated" if proof is None else "signed"
        who = await self._requests.who(by, None if call is None else call.terms, log.run.requester, strength=strength)
        vote = None if call is None or call.state not in WAITING else own_vote(call, who)
        if proof is not None:  # what is not checked is not recorded as signed
            if call is None or vote is None:
                raise UserError("you have no vote on this request whose withdrawal is signed: omit the proof")
            made = withdrawal_of(log.run, call, who, note, proof)
            await self._requests.people.check_proof((request_id(log.run, name), call.revision), made)
        return cm.Withdraw(name, who, note=note, proof=proof, vote="" if vote is None else vote.verdict)

    async def _mark(
        self,
        request: Shown,
        mark: Mark,
        by: By,
        words: Naming,
        once: str | None,
        time: tuple[datetime | None, str | float | None] | None = None,
    ) -> RequestRow:
        shown = shown_of(request, words)
        log, waiting = await self._requests.waiting(shown)
        until = None if time is None else ends_at(await self._requests.store.now(), *time)
        who = await self._requests.who(by, waiting.terms, waiting.requester)
        name = _named("mark", shown.id, once)
        await self._requests.commit(log, cm.MarkCall(waiting.call, waiting.digest, mark, who, until, name))
        return await self._requests.row(shown.id)


def _named(what: str, request: str, once: str | None) -> str:
    """Return the name in the run's log of what is done once; "" without a name."""
    return "" if once is None else digest_of(what, request, plain_text(once, "once"))


def _last_start(log: Log, call: str) -> Conflict | None:
    """Return what to tell of a call that the run does not hold any more: by whom it was started, and when."""
    for step in reversed(log.steps):
        for event in step.events:
            if isinstance(event, ev.CallStarted) and event.call == call:
                return too_late(event.by, step.at)
    return None
