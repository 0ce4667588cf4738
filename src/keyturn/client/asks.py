"""Requests of a program that runs its calls itself, at a server: the words of `App.asks`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from ..asks.ask import Ask, AskState, Outcome
from ..wire import asks as sent
from ..wire import bodies
from .sending import AGAIN, Sender, ServerError

_WAIT = 25.0
_PAUSE = 2.0
_FULL = 429


class AsyncAsks:
    """Asks a server for approval of calls, claims them once, and reports what came of them; the token needs `ask`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def ask(self, ask: Ask, *, requester: str | None = None, agent: str | None = None) -> AskState:
        """Ask for approval of a call; the same key with the same content is the same request."""
        body = sent.AskFor(**msgspec.structs.asdict(ask), requester=requester, agent=agent)
        return await self._sender.post("/asks", AskState, body)

    async def get(self, id: str) -> AskState:
        """Return how a request stands."""
        return await self._sender.get(f"/asks/{id}", AskState)

    async def wait(self, id: str, seconds: float) -> AskState:
        """Return how a request stands once it is not pending any more, or when the time is up.

        A server that is away, or has no place for one more that waits, is asked again for as long.
        """
        ends = time.monotonic() + seconds
        while True:
            left = max(min(_WAIT, ends - time.monotonic()), 0)
            try:
                state = await self._sender.get(f"/asks/{id}", AskState, _WAIT, wait=round(left, 3))
            except ServerError as error:
                if not left or error.status not in (None, *AGAIN):
                    raise
                await asyncio.sleep(min(_PAUSE, left))
                if error.status != _FULL:
                    continue
                state = await self.get(id)
            if state.status != "pending" or time.monotonic() >= ends:
                return state

    async def claim(self, id: str, digest: str, name: str, *, lasts: str | None = None) -> AskState:
        """Claim an approved call, once: whoever gets an answer runs it."""
        return await self._sender.post(
            f"/asks/{id}/claim", AskState, sent.ClaimAsk(digest=digest, name=name, lasts=lasts)
        )

    async def hold(self, id: str, name: str, *, lasts: str | None = None) -> AskState:
        """Prolong a claim."""
        return await self._sender.post(f"/asks/{id}/hold", AskState, sent.HoldAsk(name=name, lasts=lasts))

    async def report(self, id: str, name: str, outcome: Outcome, result: Any = None) -> AskState:
        """Report what came of a claimed call."""
        body = sent.ReportOutcome(name=name, outcome=outcome, result=result)
        return await self._sender.post(f"/asks/{id}/outcome", AskState, body)

    async def withdraw(self, id: str, *, why: str = "") -> AskState:
        """Withdraw a request that was not claimed."""
        return await self._sender.post(f"/asks/{id}/withdraw", AskState, bodies.Why(why=why))
