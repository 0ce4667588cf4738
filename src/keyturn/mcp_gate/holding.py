"""Hold one call until it is decided: ask, keep its client waiting, join a repeated call, claim once, report.

A call that was answered "call again" is joined by the same call of the same client: to its pending request, and once to
its decision, also after a restart of the gate. What is joined is decided here and by no word of the client. Each
request has a lease: while a call waits for it, and for a while after a call was to be repeated; then it is withdrawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple

from ..asks.ask import Ask, AskState, Outcome
from ..client.asks import AsyncAsks
from ..core.approval import Approval
from ..core.digest import digest
from ..core.errors import Conflict, NotPending, RunMissing
from ..engine.run.new_ids import new_id
from ..gating.claims import claimed_once, given_back, renewed, reported
from ..gating.errors import error_of
from ..gating.giving_up import unless_given_up
from .records import GateRecords, OpenAsk
from .task_records import TaskRecords

_LOOK = 1.0
#: How many seconds a request stays open for the call that its client was to repeat.
KEEP = 3_600.0
#: For how many seconds a gate says that a call waits for a request, and how often it says so again.
_WAITS, _AGAIN = 120.0, 40.0
_JOINED = ("pending", "approved", "rejected", "expired", "answered")

#: Tells a client that its call is still held; the number rises.
Progress = Callable[[int], Awaitable[None]]


class GatedCall(NamedTuple):
    """Describes a call that a client makes of a tool, with what its server says of the tool.

    `client` is what calls are told apart by: what the client calls itself, and its account where it has one.
    """

    client: str
    server: str
    tool: str
    arguments: dict[str, Any]
    description: str
    schema: dict[str, Any] | None
    terms: Approval | None = None
    editable: bool = True

    @property
    def name(self) -> str:
        """Return what the same call is known by."""
        return digest([self.client, self.server, self.tool, self.arguments, self.description, self.schema])


_CLAIMED = ("claimed", "succeeded")


class NotForwarded(Exception):
    """Raised where a call is not to be forwarded; the message is for the client's model."""

    def __init__(self, words: str, *, claimed: bool = False) -> None:
        """Keep whether another call claimed its approval, and runs it now or did."""
        super().__init__(words)
        self.claimed = claimed


class Approved(NamedTuple):
    """Holds a call that was claimed under a name: it is forwarded with the arguments that were approved, once."""

    state: AskState
    name: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that were approved."""
        return json.loads(self.state.arguments)


class Holding:
    """Holds the calls of a gate.

    `hold` is for how many seconds at most, before a client is to call again; `keep` how long its request stays open
    for that.
    """

    def __init__(self, asks: AsyncAsks, hold: float, records: GateRecords | None = None, keep: float = KEEP) -> None:
        self._asks = asks
        self._hold = hold
        self._keep = keep
        self._records = records or GateRecords()  # requests that no call has used
        self._asking = asyncio.Lock()
        self._waited = Counter[str]()  # how many calls wait for each of them
        self._gate = new_id()
        self._leases = dict[str, asyncio.Task[None]]()
        self._reports = set[asyncio.Task[None]]()
        self._stopping = False

    @property
    def tasks(self) -> TaskRecords:
        """Return the tasks of these calls."""
        return self._records.tasks

    async def forget(self, call: GatedCall, why: str) -> None:
        """Withdraw the request that a call would join, unless another call waits for it."""
        self._records.look()
        known = self._records.asks.get(call.name)
        if known is not None:
            await self._given_up(call.name, known.id, why)

    async def approved(
        self,
        call: GatedCall,
        progress: Progress,
        now: Callable[[], Awaitable[GatedCall]],
        *,
        patient: bool = False,
    ) -> Approved:
        """Return a call that may be forwarded, or raise `NotForwarded`; where the client gives up, it is withdrawn.

        `now` returns the call with what its server says of the tool by then: of another tool nothing was approved. A
        `patient` call is held for as long as it takes.
        """
        hold = math.inf if patient else self._hold

        async def waited(state: AskState) -> AskState:
            try:
                made = await self._decided(call.name, state, progress, hold)
            except Exception:  # the server is away: the same call joins its request once it is back
                self._left(state.id)
                self._begin_lease(call.name, state.id)
                raise
            self._left(state.id)
            return made

        async def left(state: AskState) -> None:
            self._left(state.id)
            await self._stopped(call.name, state.id)

        state = await unless_given_up(self._joined(call), waited, left)
        if state.status == "pending":
            self._begin_lease(call.name, state.id)
            raise NotForwarded(
                f"Pending approval (request {state.request or state.id}). Call the same tool with the same arguments "
                "again to wait for the decision."
            )
        if state.status != "approved":
            self._records.drop(call.name, state.id)
            raise NotForwarded(_words(state), claimed=state.status in _CLAIMED)
        try:
            return await self._released(call, state, now)
        except asyncio.CancelledError:
            await asyncio.shield(self._stopped(call.name, state.id))
            raise

    async def _joined(self, call: GatedCall) -> AskState:
        """Return the request of a call, for which no lease ends while a call waits for it."""
        async with self._asking:  # two at the same time would ask twice, and one of the requests be forgotten
            state = await self._asked(call)
            self._waited[state.id] += 1
            self._end_lease(state.id)
            return state

    async def _asked(self, call: GatedCall) -> AskState:
        """Return the request of a call: the one that an earlier call asked and did not use, else a new one."""
        self._records.look()  # another gate may have asked, or used the decision
        known = self._records.asks.get(call.name)
        with contextlib.suppress(RunMissing, NotPending):
            state = None if known is None else await self._asks.get(known.id)
            if state is not None and state.status in _JOINED and state.key.startswith(call.name):
                self._open(call.name, state.id, self._hold + self._keep)
                return state
        ask = Ask(
            key=f"{call.name} {new_id()}",
            tool=call.tool,
            server=call.server,
            arguments=json.dumps(call.arguments, ensure_ascii=False),
            description=call.description,
            schema=call.schema,
            context={"framework": f"MCP client {call.client}", "host": f"MCP server {call.server}"},
            terms=call.terms,
            editable=call.editable,
        )
        state = await self._asks.ask(ask)
        self._open(call.name, state.id, self._hold + self._keep)
        return state

    def _open(self, name: str, id: str, seconds: float, *, waits: bool = True) -> None:
        """Let the same call join a request for so long, from another gate as well, and say whether one waits here."""
        now = time.time()
        self._records.keep(name, OpenAsk(id, now + seconds, {self._gate: now + _WAITS if waits else 0.0}))

    def begin(self) -> None:
        """Begin the leases of what an earlier gate left open."""
        self.tasks.drop_old()
        for name, ask in self._records.asks.items():
            self._leases[ask.id] = asyncio.ensure_future(self._ended(name, ask.id))

    def _begin_lease(self, name: str, id: str) -> None:
        self._end_lease(id)
        self._open(name, id, self._keep, waits=bool(self._waited[id]))
        self._leases[id] = asyncio.ensure_future(self._ended(name, id))

    def _end_lease(self, id: str) -> None:
        lease = self._leases.pop(id, None)
        if lease is not None:
            lease.cancel()

    async def _ended(self, name: str, id: str) -> None:
        """Withdraw a request once no call, of this gate or another, has joined it for as long as it was kept."""
        while (ask := self._records.asks.get(name)) is not None and ask.id == id:
            left = max(ask.until, *ask.waits.values(), 0.0) - time.time()
            if left <= 0:
                self._leases.pop(id, None)
                with contextlib.suppress(Exception):  # it expires by its terms, or is seen in the inbox
                    await self._given_up(name, id, "the client did not repeat the call")
                return
            await asyncio.sleep(left)
            self._records.look()

    def _left(self, id: str) -> None:
        """Note that one call fewer waits for a request."""
        self._waited[id] -= 1
        self._waited += Counter()  # which drops those that nothing waits for

    async def _decided(self, name: str, state: AskState, progress: Progress, hold: float) -> AskState:
        began = said = time.monotonic()
        number, patient = 0, hold == math.inf
        while (
            state.status == "pending"
            and (patient or not self._stopping)
            and (left := began + hold - time.monotonic()) > 0
        ):
            state = await self._asks.wait(state.id, min(_LOOK, left))
            number += 1
            await progress(number)
            if time.monotonic() - said >= _AGAIN:
                said = time.monotonic()
                self._open(name, state.id, self._hold + self._keep)
        return state

    async def _stopped(self, name: str, id: str) -> None:
        """Withdraw a request whose client stopped waiting; at the end of the gate the same call may join it later."""
        if self._stopping:
            self._begin_lease(name, id)
        else:
            await self._given_up(name, id, "the client stopped waiting for the call")

    async def _released(self, call: GatedCall, state: AskState, now: Callable[[], Awaitable[GatedCall]]) -> Approved:
        """Claim an approved call, unless the server says something else of its tool by now."""
        try:
            same = await now() == call
        except Exception:  # the server is away: the same call joins the decision
            self._begin_lease(call.name, state.id)
            raise
        if not same:
            await self._given_up(call.name, state.id, "the server changed the tool while its call was pending")
            raise NotForwarded("Not run: the server changed the tool while the call was pending. Call it again.")
        return await self._claimed(call.name, state)

    async def _claimed(self, name: str, state: AskState) -> Approved:
        self._records.drop(name, state.id)
        holder = new_id()
        try:
            claim = await claimed_once(self._asks, state, holder)
        except Conflict as error:
            found = await self._asks.get(state.id)
            if found.status == "approved":  # none claimed it: the next call joins it
                self._begin_lease(name, state.id)
            raise NotForwarded(f"Not run: {error}", claimed=found.status in _CLAIMED) from None
        return Approved(claim, holder)

    async def _given_up(self, name: str, id: str, why: str) -> None:
        """Withdraw a request for which no other call waits, of this gate or another."""
        async with self._asking:
            if self._waited[id]:
                return
            self._records.leave(name, self._gate)
            known = self._records.asks.get(name)
            if known is not None and known.id == id and known.is_waited_for(time.time(), but=self._gate):
                self._leases.setdefault(id, asyncio.ensure_future(self._ended(name, id)))  # that gate may die
                return
            self._records.drop(name, id)
            with contextlib.suppress(Conflict, RunMissing, NotPending):
                await self._asks.withdraw(id, why=why)

    @contextlib.asynccontextmanager
    async def running(self, approved: Approved) -> AsyncGenerator[None]:
        """Hold the claim while the call is at work; an error, whichever, leaves the call in doubt."""
        beats = asyncio.ensure_future(renewed(self._asks, approved.state.id, approved.name))
        try:
            yield
        except BaseException as error:
            why = f"the connection to the server failed ({type(error).__name__})"
            await self._reported(approved, "unknown", why)
            raise
        finally:
            beats.cancel()

    async def report(self, approved: Approved, *, failed: bool) -> None:
        """Report what the server answered: that it ran, or that it failed; else the call is in doubt by its time."""
        words = "the server answered an error" if failed else "the server answered"
        await self._reported(approved, "failed" if failed else "succeeded", words)

    async def _reported(self, approved: Approved, outcome: Outcome, words: str) -> None:
        """Report an outcome to the end, also where the client gives up meanwhile: it is known."""
        task = asyncio.ensure_future(reported(self._asks, *approved, outcome, words))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)
        await asyncio.shield(task)

    async def give_back(self, approved: Approved) -> None:
        """Report that a call that was claimed was not forwarded: its client stopped waiting before."""
        with contextlib.suppress(Exception):  # it is in doubt by its time
            await given_back(self._asks, *approved)

    def stop(self) -> None:
        """Hold calls no longer: each is answered that it is to be repeated."""
        self._stopping = True

    async def close(self) -> None:
        """End the leases, and what is being reported; what a call may join stays open for the next gate."""
        for id in list(self._leases):
            self._end_lease(id)
        await asyncio.gather(*self._reports, return_exceptions=True)


def _words(state: AskState) -> str:
    """Return what a model is told of a call that was not approved."""
    if state.status == "answered":
        return f"Not run: a person answered in the tool's place: {json.dumps(state.result, ensure_ascii=False)}"
    return f"Not run: {error_of(state)}"
