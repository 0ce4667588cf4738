"""Take the requests of external callers: ask, look, claim once, report, withdraw.

Each is a run of the app's journal. A claim drives the run under its lease as a worker would, so that whatever holds
for the start of a call holds for it; all else is appended by whoever says it, as decisions are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, get_args

from msgspec.structs import replace

from ..core import commands as cm
from ..core.codec import Log
from ..core.digest import canonical
from ..core.durations import milliseconds
from ..core.encodable import moment
from ..core.errors import Conflict, LogDamaged, RunMissing, UserError
from ..core.gate.claiming import HoldCall
from ..core.gate.opening import Outdated, still
from ..core.people import Decider, plain_text
from ..core.states import OVER
from ..engine.driving.lease import TTL_MS
from ..engine.driving.taking import claimed
from ..engine.driving.writer import write_to
from ..engine.effects.claiming import Claiming
from ..engine.execution import Execution
from ..engine.run.log_cache import log_in
from ..engine.states.named_start import NamedStart
from ..journal.base import Claim, Store
from ..journal.rows import Query
from .agent import ExternalAgent, ExternalTool
from .ask import DELIVERABLE, Ask, AskedBy, AskState, Outcome
from .history import AskHistory, history_of
from .standing import CALL, NOTHING, asked_by, state_of

logger = logging.getLogger("keyturn.app")

#: How long a claim lasts that says nothing else, and at most.
LASTS = "10m"
_MOST = milliseconds("30d")
_TRIES = 100
_PAUSE = 0.05
_PAGE = 500


class AskHost(Protocol):
    """Keeps the runs: an app."""

    journal: Store
    agents: dict[str, Any]

    async def start(
        self, agent: str, input: str | list[Any], *, requester: str | None = None, once: str | None = None
    ) -> Any:
        """Record that a run starts."""
        ...


class AskService:
    """Answers external callers; `app.asks` is one.

    `account` is the id of the service account that asks. Another account cannot see the request, and the same key of
    another account is another request.
    """

    def __init__(self, host: AskHost, take: Callable[[Claim], Awaitable[Execution]]) -> None:
        self._host, self._take = host, take
        self._claiming = set[asyncio.Future[None]]()

    @property
    def _journal(self) -> Store:
        return self._host.journal

    async def ask(
        self, ask: Ask, *, account: str = "", requester: str | None = None, agent: str | None = None
    ) -> AskState:
        """Ask for approval of a call; the same key with the same content is the same request.

        Raises `Conflict` where the key was used for another call. `agent` names the `ExternalAgent` of the app, where
        it has several.
        """
        for delivered in ask.delivers:
            state = await self.get(delivered, account=account)
            if state.status not in DELIVERABLE:
                raise Conflict(f"request {delivered} cannot be delivered: it is {_said(state)}")
        once = self._once(account, ask.key)
        given = AskedBy(ask, account).input()
        run = await self._host.start(self._agent(agent), given, requester=requester, once=once)
        return await self.get(run.id, account=account)

    @staticmethod
    def _once(account: str, key: str) -> str:
        return f"ask {account} {plain_text(key, 'key')}"

    async def find(self, key: str, *, account: str = "") -> AskHistory | None:
        """Return what became of the request with this key; None where there is none."""
        try:
            return await self.history(NamedStart(self._once(account, key), None).run, account=account)
        except RunMissing:
            return None

    async def history(self, id: str, *, account: str = "") -> AskHistory:
        """Return what became of a request, by its first outcome: a caller that was given it keeps to it."""
        return history_of(await self._log(id, account))

    async def screened(self, id: str, seconds: float, *, account: str = "") -> AskHistory:
        """Return a request once people are asked, or it is decided, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._written(id, lambda: self._is_screened(id, account))
        return await self.history(id, account=account)

    async def _is_screened(self, id: str, account: str) -> bool:
        run = (await self._log(id, account)).run
        call = run.calls.get(CALL)
        return run.status in OVER or (call is not None and call.state != "proposed" and not call.recheck)

    def _agent(self, name: str | None) -> str:
        known = [each for each, agent in self._host.agents.items() if isinstance(agent, ExternalAgent)]
        if name is None and len(known) == 1:
            return known[0]
        if name not in known:
            said = f"it has: {', '.join(known)}" if known else "add one: App(agents=[..., ExternalAgent()])"
            raise UserError(f"this app has no ExternalAgent {'' if name is None else repr(name)}; {said}")
        return str(name)

    async def _log(self, id: str, account: str) -> Log:
        log = await log_in(self._journal, id)
        if not log.steps or asked_by(log).account != account:
            raise RunMissing(id)
        return log

    async def get(self, id: str, *, account: str = "") -> AskState:
        """Return how a request stands."""
        return await self._standing(await self._log(id, account))

    async def _standing(self, log: Log) -> AskState:
        """Return how a request stands now: an approval that can be undone is none yet."""
        state = state_of(log)
        if state.undo_until is None:
            return state
        if moment(await self._journal.now()) < state.undo_until:
            return replace(state, status="pending")
        return replace(state, undo_until=None)

    async def wait(self, id: str, seconds: float, *, account: str = "") -> AskState:
        """Return how a request stands once it is not pending any more, or when the time is up."""
        ends = time.monotonic() + seconds
        while (state := await self.get(id, account=account)).status == "pending":
            left = ends - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, await self.undo_left(state))):
                    await self._changed(id, account, state)
        return state

    async def undo_left(self, state: AskState) -> float:
        """Return after how many seconds an approval cannot be undone any more by the journal's time, if it can be."""
        if state.undo_until is None:
            return math.inf
        return max((state.undo_until - moment(await self._journal.now())).total_seconds(), _PAUSE)

    async def _changed(self, id: str, account: str, before: AskState) -> None:
        """Wait until a request is not pending any more, or is so for another time."""

        async def moved() -> bool:
            return not is_as_before(before, await self.get(id, account=account))

        await self._written(id, moved)

    async def _written(self, id: str, what: Callable[[], Awaitable[bool]]) -> None:
        """Wait until a request's log says something."""
        head = await self._journal.head(id)
        async with contextlib.aclosing(self._journal.watch(id, head)) as lines:
            while not await what():
                await anext(lines)

    async def claim(
        self, id: str, digest: str, name: str, *, lasts: str | float = LASTS, account: str = ""
    ) -> AskState:
        """Claim an approved call, once and for ever: whoever gets an answer runs it, and nobody else does.

        `digest` is that of the state that was shown, `name` names the claim: the same one gets the same answer again,
        until a person has the call retried, which has another digest then.
        Until the claim has lasted so long its outcome is to be reported, or the call is in doubt.
        """
        duration = min(milliseconds(lasts), _MOST)
        for left in range(_TRIES, -1, -1):
            state = await self._standing(log := await self._log(id, account))
            if (state.status, state.claimed_by, state.digest) == ("claimed", self._holder(account, name), digest):
                return state
            if state.status not in ("approved", "pending"):
                raise Conflict(_no_claim(state), winner=state.claimed_by or None)
            if not left:
                break
            if state.status == "approved":
                if state.digest != digest:
                    raise Conflict("this is not the call as you were shown it: look at the request again")
                try:
                    await self._driven(id, Claiming(CALL, digest, self._holder(account, name), duration))
                    continue
                except _Held:
                    pass
            elif state.undo_until is not None:
                raise Conflict(f"this approval can be undone until {state.undo_until.isoformat()}: claim the call then")
            elif (call := log.run.calls.get(CALL)) is None or not call.recheck:
                raise Conflict("this request cannot be claimed: no decision was made yet")
            await asyncio.sleep(_PAUSE)  # a worker has it, and asks the newest policy
        raise Conflict("the run of this request is being moved by others; try again")

    async def _driven(self, id: str, claiming: Claiming) -> None:
        """Claim a call to the end, also where this is cancelled: a lease that is left behind holds up all others."""
        driving = asyncio.ensure_future(self._drive(id, claiming))
        self._claiming.add(driving)
        driving.add_done_callback(self._ended)
        await asyncio.shield(driving)

    def _ended(self, driving: asyncio.Future[None]) -> None:
        self._claiming.discard(driving)
        if not driving.cancelled():
            driving.exception()  # which nobody reads where the claim was cancelled

    async def _drive(self, id: str, claiming: Claiming) -> None:
        """Move the run as a worker would, and start the call."""
        try:
            held = await claimed(self._journal, id, claiming.by, TTL_MS)
        except Conflict as error:
            raise _Held from error
        try:
            play = await self._take(held)
        except BaseException:
            await self._journal.release(held, await self._journal.now())
            raise
        play.drive.patient, play.drive.claiming = True, claiming
        await play.finish()

    async def hold(self, id: str, name: str, *, lasts: str | float = LASTS, account: str = "") -> AskState:
        """Prolong a claim: until so long from now the outcome is to be reported."""
        log = await self._log(id, account)
        until = await self._journal.now() + min(milliseconds(lasts), _MOST)
        await write_to(self._journal, log, HoldCall(CALL, self._holder(account, name), until))
        return state_of(log)

    async def report(self, id: str, name: str, outcome: Outcome, result: Any = None, *, account: str = "") -> AskState:
        """Report what came of a claimed call; "unknown" puts it in doubt, and a person says what became of it."""
        log = await self._log(id, account)
        state, by = state_of(log), self._holder(account, name)
        if state.claimed_by == by and _reported_already(state, outcome, result):
            return state
        if outcome not in get_args(Outcome):
            raise UserError(f"an outcome is 'succeeded', 'failed' or 'unknown', not {outcome!r}")
        if state.status != "claimed":
            raise Conflict(f"this call has no claim to report an outcome of: it is {_said(state)}")
        if outcome == "unknown":
            why = result if isinstance(result, str) and result else "its caller does not know its outcome"
            await write_to(self._journal, log, cm.LoseCall(CALL, why, again=False, by=by))
            return state_of(log)
        words = plain_text(result, "result") if isinstance(result, str) else canonical(result)
        item = {"type": "function_call_output", "call_id": state.key, "output": words}
        value = None if isinstance(result, str) and result != NOTHING else result
        end: list[cm.RunCommand] = [] if log.run.status in OVER else [cm.CloseRun(words, [])]
        try:
            await write_to(self._journal, log, cm.FinishCall(CALL, item, value, outcome == "failed", by=by), *end)
        except Conflict:
            if not end or log.run.status not in OVER:
                raise
            return await self.report(id, name, outcome, result, account=account)  # it was cancelled, or is recorded
        return state_of(log)

    async def withdraw(
        self, id: str, *, account: str = "", by: Decider | None = None, why: str = "", pending: bool = False
    ) -> AskState:
        """Withdraw a request that was not claimed, or with `pending` only while it is pending; no one is asked then."""
        while True:
            log = await self._log(id, account)
            state = await self._standing(log)
            if state.status == "withdrawn":
                return state
            call = log.run.calls.get(CALL)
            if state.status != "pending" and (pending or state.status != "approved"):
                raise Conflict(f"this request cannot be withdrawn: it is {_said(state)}")
            try:
                await write_to(self._journal, log, *([] if call is None else [still(call)]), cm.Cancel(by, why))
            except Outdated:  # it was decided or claimed meanwhile: look again
                continue
            except Conflict:
                if log.run.status not in OVER:
                    raise
                continue  # another withdrew it first
            return state_of(log)

    async def withdraw_all(self, account: str, *, why: str = "") -> None:
        """Withdraw every request of an account that is pending in the inbox, whomever it names as the requester."""
        query: Query | None = Query(state="open", limit=_PAGE)
        while query is not None:
            page = await self._journal.requests(query)
            asked = [row for row in page if row.state != "damaged" and row.request.tool_kind == ExternalTool.kind]
            for run in [row.run for row in asked]:
                try:
                    await self.withdraw(run, account=account, why=why, pending=True)
                except (Conflict, RunMissing):  # it was decided, or is of another account or agent
                    continue
                except LogDamaged as error:  # nothing can be written to it, nor run: those behind it are withdrawn
                    logger.error("%s", error)
            query = replace(query, after=page[-1].place) if len(page) == _PAGE else None

    @staticmethod
    def _holder(account: str, name: str) -> str:
        return f"{account or 'external'} {plain_text(name, 'the name of a claim')}"


def is_as_before(before: AskState, now: AskState) -> bool:
    """Return whether a request is pending still, and for no other time.

    >>> pending = AskState(id="5e1f", key="order-7", tool="refund", status="pending")
    >>> is_as_before(pending, pending)
    True
    """
    return now.status == "pending" and now.undo_until == before.undo_until


class _Held(Exception):
    """Raised where a worker moves the run right now."""


def _reported_already(state: AskState, outcome: Outcome, result: Any) -> bool:
    """Return whether this very outcome is recorded: a report that is sent again changes nothing."""
    if outcome == "unknown":
        return state.status == "in_doubt"
    return state.status == outcome and state.result == result


_WORDS = {"in_doubt": "in doubt", "not_run": "known not to have run"}


def _no_claim(state: AskState) -> str:
    """Return why a request cannot be claimed."""
    if state.status == "claimed":
        return "this call was already claimed, and is run by the first claimant"
    return f"this request cannot be claimed: it is {_said(state)}"


def _said(state: AskState) -> str:
    return _WORDS.get(state.status, state.status)
