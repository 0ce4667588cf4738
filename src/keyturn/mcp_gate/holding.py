"""Hold one call until it is decided: ask, keep its client waiting, join a repeated call, claim once, report.

A call that a client gave up is joined by the same call of the same client: to its pending request, and once to its
decision. What is joined is decided here and by no word of the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple

from ..asks.ask import Ask, AskState
from ..client.asks import AsyncAsks
from ..core.digest import digest
from ..core.errors import Conflict
from ..engine.run.new_ids import new_id

_log = logging.getLogger("keyturn.mcp_gate")
_LOOK = 1.0
_RENEWED = 180.0

#: Tells a client that its call is still held; the number rises.
Progress = Callable[[int], Awaitable[None]]


class GatedCall(NamedTuple):
    """Describes a call that a client makes of a tool, with what its server says of the tool."""

    client: str
    server: str
    tool: str
    arguments: dict[str, Any]
    description: str
    schema: dict[str, Any] | None


class NotForwarded(Exception):
    """Raised where a call is not to be forwarded; the message is for the client's model."""


class Approved(NamedTuple):
    """Holds a call that was claimed: it is forwarded with these arguments, once."""

    ask: str
    name: str
    arguments: dict[str, Any]


class Holding:
    """Holds the calls of a gate; `hold` is for how many seconds at most, before a client is to call again."""

    def __init__(self, asks: AsyncAsks, hold: float) -> None:
        self._asks = asks
        self._hold = hold
        self._open = dict[str, str]()  # requests that no call has used, by client, tool and arguments
        self._asking = asyncio.Lock()
        self._waited = Counter[str]()  # how many calls wait for each of them

    async def approved(self, call: GatedCall, progress: Progress, now: Callable[[], Awaitable[GatedCall]]) -> Approved:
        """Return a call that may be forwarded, or raise `NotForwarded`; where the client gives up, it is withdrawn.

        `now` returns the call with what its server says of the tool by then: of another tool nothing was approved.
        """
        name = digest([call.client, call.server, call.tool, call.arguments, call.description, call.schema])
        async with self._asking:  # two at the same time would ask twice, and one of the requests be forgotten
            state = await self._asked(name, call)
            self._waited[state.id] += 1
        try:
            state = await self._awaited(state, progress)
        except asyncio.CancelledError:
            await asyncio.shield(self._given_up(name, state, "the client stopped waiting for the call"))
            raise
        if state.status == "pending":
            raise NotForwarded(
                f"Pending approval (request {state.request or state.id}). Call the same tool with the same arguments "
                "again to wait for the decision."
            )
        if state.status == "approved" and await now() != call:
            await self._given_up(name, state, "the server changed the tool while its call was pending")
            raise NotForwarded("Not run: the server changed the tool while the call was pending. Call it again.")
        return await self._claimed(name, state)

    async def _asked(self, name: str, call: GatedCall) -> AskState:
        """Return the request of a call: the one that an earlier call asked and did not use, else a new one."""
        known = self._open.get(name)
        if known is not None:
            state = await self._asks.get(known)
            if state.status in ("pending", "approved", "rejected", "expired", "answered"):
                return state
        ask = Ask(
            key=new_id(),
            tool=call.tool,
            server=call.server,
            arguments=json.dumps(call.arguments, ensure_ascii=False),
            description=call.description,
            schema=call.schema,
            context={"framework": f"MCP client {call.client}", "host": f"MCP server {call.server}"},
        )
        state = await self._asks.ask(ask)
        self._open[name] = state.id
        return state

    async def _awaited(self, state: AskState, progress: Progress) -> AskState:
        try:
            return await self._decided(state, progress)
        finally:
            self._waited[state.id] -= 1
            self._waited += Counter()  # which drops those that nothing waits for

    async def _decided(self, state: AskState, progress: Progress) -> AskState:
        ends = asyncio.get_running_loop().time() + self._hold
        number = 0
        while state.status == "pending" and (left := ends - asyncio.get_running_loop().time()) > 0:
            state = await self._asks.wait(state.id, min(_LOOK, left))
            number += 1
            await progress(number)
        return state

    async def _claimed(self, name: str, state: AskState) -> Approved:
        self._used(name, state)
        if state.status != "approved":
            raise NotForwarded(_words(state))
        holder = new_id()
        try:
            claim = await self._asks.claim(state.id, state.digest, holder)
        except Conflict as error:
            if (await self._asks.get(state.id)).status == "approved":  # none claimed it: the next call joins it
                self._open.setdefault(name, state.id)
            raise NotForwarded(f"Not run: {error}") from None
        return Approved(state.id, holder, json.loads(claim.arguments))

    async def _given_up(self, name: str, state: AskState, why: str) -> None:
        """Withdraw a request for which no other call waits."""
        async with self._asking:
            if self._waited[state.id]:
                return
            self._used(name, state)
            with contextlib.suppress(Conflict):
                await self._asks.withdraw(state.id, why=why)

    def _used(self, name: str, state: AskState) -> None:
        """Let no later call join a request: a decision is for one call."""
        if self._open.get(name) == state.id:
            del self._open[name]

    @contextlib.asynccontextmanager
    async def running(self, approved: Approved) -> AsyncGenerator[None]:
        """Hold the claim while the call is at work; an error, whichever, leaves the call in doubt."""
        beats = asyncio.ensure_future(self._renewed(approved))
        try:
            yield
        except BaseException as error:
            why = f"the connection to the server failed ({type(error).__name__})"
            await asyncio.shield(self._asks.report(approved.ask, approved.name, "unknown", why))
            raise
        finally:
            beats.cancel()

    async def report(self, approved: Approved, *, failed: bool) -> None:
        """Report what the server answered: that it ran, or that it failed; else the call is in doubt by its time."""
        words = "the server answered an error" if failed else "the server answered"
        try:
            await self._asks.report(approved.ask, approved.name, "failed" if failed else "succeeded", words)
        except Exception as error:
            _log.warning("the outcome of request %s was not recorded: %s", approved.ask, error)

    async def close(self) -> None:
        """Withdraw what no call will use any more."""
        for ask in self._open.values():
            with contextlib.suppress(Exception):  # it expires by its terms, or is seen in the inbox
                await self._asks.withdraw(ask, why="the gate was closed")

    async def _renewed(self, approved: Approved) -> None:
        while True:
            await asyncio.sleep(_RENEWED)
            with contextlib.suppress(Exception):  # it is tried again
                await self._asks.hold(approved.ask, approved.name)


def _words(state: AskState) -> str:
    """Return what a model is told of a call that was not approved."""
    if state.status == "answered":
        return f"Not run: a person answered in the tool's place: {json.dumps(state.result, ensure_ascii=False)}"
    by = f" by {state.decided_by}" if state.decided_by else ""
    why = state.note or state.reason
    return f"Not run: the call was {state.status}{by}{': ' + why if why else '.'}"
