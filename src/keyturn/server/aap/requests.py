"""Serve the requests of AAP: create, wait, cancel, consume once, report; each is a request of an external caller."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re

from starlette.requests import Request
from starlette.responses import Response

from ...application.app import App
from ...asks.history import AskHistory
from ...asks.service import AskService
from ...core.errors import Conflict, RunMissing
from ..address import origin_of
from ..api.once import key_of
from ..api.routes import Call, admit_call
from ..api.waiting import settled
from ..places import TooManyStreams
from ..turns import leave_turn
from . import wire
from .errors import AapRefused, answer

#: How long a call may take after it was consumed, before its outcome is unknown.
LASTS = "24h"
_SCREENED = 2.0
_LONGEST_WAIT = 30.0
_NO_PLACE = 2.0
#: How long the clock of the request itself has to expire it.
_GRACE_MS = 10_000
_CONSUME = "consume "
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WAIT = re.compile(r"[1-9][0-9]{0,5}(s|m|h)")


class Caller:
    """Answers one account: how its requests stand, by the journal's time."""

    def __init__(self, here: Call) -> None:
        self.here = here
        self.app = here.app
        self.account = here.visitor.id

    @property
    def asks(self) -> AskService:
        """Return the requests of external callers."""
        return self.app.asks

    async def look(self, id: str) -> AskHistory:
        """Return a request as it stands; one that a policy has pending past its deadline is withdrawn."""
        history = await self.asks.history(id, account=self.account)
        if history.first is None and await self.app.people.now() >= wire.deadline_of(history) + _GRACE_MS:
            with contextlib.suppress(Conflict):  # it is not pending any more: it was decided too late
                await self.asks.withdraw(id, account=self.account, why="its deadline passed", pending=True)
        return history

    async def left(self, history: AskHistory) -> float | None:
        """Return after how many seconds time alone changes a request; None once it is decided."""
        now = await self.app.people.now()
        if wire.decided(history, now) is not None:
            return None
        settles = math.inf if history.first is None else history.first.since
        return max((min(wire.deadline_of(history), settles) - now) / 1_000, 0.01)

    async def status(self, history: AskHistory) -> str:
        """Return the status of a request."""
        return wire.status_of(wire.decided(history, await self.app.people.now()))

    async def answer(self, history: AskHistory, status: int = 200) -> Response:
        """Answer with a request, and where a person decides it."""
        headers = {"link": f'<{_place(self.here, history)}>; rel="related"; title="Keyturn"'}
        return answer(wire.shown(history, await self.app.people.now()), status, headers)


def _place(here: Call, history: AskHistory) -> str:
    root = here.request.scope.get("keyturn_root", "")
    page = f"requests/{history.request}" if history.request else f"runs/{history.id}"
    return f"{origin_of(here.request, secure=here.settings.secure)}{root}/{page}"


async def _caller(request: Request) -> Caller:
    return Caller(await admit_call(request, ("ask",)))


def _id(request: Request) -> str:
    given = str(request.path_params["id"])
    if not _ID.fullmatch(given):
        raise RunMissing(given)
    return given.replace("-", "")


def required_key(request: Request) -> str:
    """Return the idempotency key of a request, or refuse one without."""
    key = key_of(request.headers)
    if key is None:
        raise AapRefused(400, "invalid_request", "the header Idempotency-Key is required", "Idempotency-Key")
    return key


async def create(request: Request) -> Response:
    """Create a request; the same key with the same fields is the same request."""
    caller, key = await _caller(request), required_key(request)
    raw = await request.body()
    submitted = wire.read(wire.Submission, raw, caller.here.settings.body_limit)
    ask = wire.ask_of(submitted, raw, key)
    known = await caller.asks.find(ask.key, account=caller.account)
    if known is None:
        quota = request.app.state.open_asks
        await quota.check(caller.account)
        try:
            agent = _agent(caller.app)
            made = await caller.asks.ask(ask, account=caller.account, requester=caller.account, agent=agent)
        except Conflict:
            known = await caller.asks.find(ask.key, account=caller.account)  # another process was faster
        else:
            quota.opened(caller.account, made.id)
            if (await caller.app.people.directory()).person(caller.account) is None:  # it was deleted meanwhile
                await caller.asks.withdraw_all(caller.account, why="its instance was deleted")
            await caller.asks.screened(made.id, _SCREENED, account=caller.account)
            return await caller.answer(await caller.look(made.id), 201)
    if known is None or not wire.is_same(known.asked, ask):
        raise AapRefused(409, "idempotency_conflict", "the idempotency key was already used for a different request")
    return await caller.answer(await caller.look(known.id))


def _agent(app: App) -> str | None:
    """Return the external agent that answers AAP: the one called "aap", if the app has it, or its only one."""
    return "aap" if "aap" in app.agents else None


async def show(request: Request) -> Response:
    """Answer with a request; with `wait` once it is decided, or when that time is up."""
    caller, id = await _caller(request), _id(request)

    async def look(now: Call) -> AskHistory:
        return await Caller(now).look(id)

    wait = _seconds(request)
    try:
        seen = await settled(caller.here, wait, id, look, caller.left, lambda a, b: a.first != b.first)
    except TooManyStreams:  # more waits than this account has places for: it asks again soon
        leave_turn(request.scope)
        await asyncio.sleep(min(wait, _NO_PLACE))
        seen = await caller.look(id)
    return await caller.answer(seen)


def _seconds(request: Request) -> float:
    given = request.query_params.get("wait")
    if given is None:
        return 0
    if not _WAIT.fullmatch(given):
        raise AapRefused(400, "invalid_request", "wait is a duration such as 25s", "wait")
    return min(int(given[:-1]) * {"s": 1, "m": 60, "h": 3_600}[given[-1]], _LONGEST_WAIT)


async def cancel(request: Request) -> Response:
    """Cancel a request that is pending."""
    caller, id = await _caller(request), _id(request)
    if await caller.left(await caller.look(id)) is not None:
        with contextlib.suppress(Conflict):  # it was decided meanwhile
            await caller.asks.withdraw(id, account=caller.account, why="cancelled by its caller", pending=True)
    history = await caller.look(id)
    if await caller.status(history) != "cancelled":
        raise AapRefused(409, "already_terminal", "the request was already decided, or expired")
    return await caller.answer(history)


async def consume(request: Request) -> Response:
    """Consume an approval, once: the key that gets an answer starts the call, and no other does."""
    caller, key = await _caller(request), required_key(request)
    id = _id(request)
    history = await caller.look(id)
    if await caller.status(history) != "approved" or history.first is None:
        raise AapRefused(409, "not_approved", "the request is not approved")
    if history.claimed_at is None:
        if await caller.app.people.now() >= wire.expires_at(history.first):
            raise AapRefused(409, "approval_expired", "the approval expired before it was consumed")
        state = await caller.asks.get(id, account=caller.account)
        with contextlib.suppress(Conflict):  # looked at below
            await caller.asks.claim(id, state.digest, f"{_CONSUME}{key}", lasts=LASTS, account=caller.account)
        history = await caller.look(id)
    if history.claimed_at is None:
        await _unclaimable(caller, id)
    if history.claimed_by != f"{caller.account} {_CONSUME}{key}":
        raise AapRefused(409, "already_consumed", "the approval was already consumed")
    return await caller.answer(history)


async def _unclaimable(caller: Caller, id: str) -> None:
    """Refuse to consume what cannot be claimed any more: where a stricter policy asks anew, no one is to answer."""
    state = await caller.asks.get(id, account=caller.account)
    if state.status == "approved":
        raise AapRefused(503, "unavailable", "the request is being worked on; try again")
    if state.status == "pending":
        with contextlib.suppress(Conflict):
            await caller.asks.withdraw(id, account=caller.account, why="its approval is void", pending=True)
    raise AapRefused(409, "approval_expired", "the approval is no longer valid")


async def report(request: Request) -> Response:
    """Report what came of a consumed call."""
    caller, id = await _caller(request), _id(request)
    said = wire.read(wire.ConsumedOutcome, await request.body(), 160_000)
    history = await caller.look(id)
    holder = history.claimed_by.removeprefix(f"{caller.account} ")
    if not holder.startswith(_CONSUME):
        raise AapRefused(409, "not_consumed", "the approval was not consumed")
    try:
        await caller.asks.report(id, holder, said.status, said.note, account=caller.account)
    except Conflict as error:
        raise AapRefused(409, "outcome_conflict", f"another outcome is recorded: {error.message}") from None
    return await caller.answer(await caller.look(id))
