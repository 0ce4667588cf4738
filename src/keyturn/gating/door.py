"""Where gated calls ask: a server, by its URL, or a journal in this process; both in a loop of their own."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from ..asks.ask import Ask, AskState, Outcome
from ..core.errors import UserError
from ..support.own_loop import OwnLoop

T = TypeVar("T")

_NOWHERE = (
    "gated calls need a place to ask: set KEYTURN_SERVER and KEYTURN_TOKEN, or KEYTURN_JOURNAL, or make a "
    'Gated("https://...", token=...) or a Gated("sqlite:///approvals.db")'
)


class AskPlace(Protocol):
    """Answers gated calls: `App.asks`, or the `asks` of a client."""

    async def ask(self, ask: Ask, *, requester: str | None = None, agent: str | None = None) -> AskState:
        """Ask for approval."""
        ...

    async def get(self, id: str) -> AskState:
        """Return how a request stands."""
        ...

    async def wait(self, id: str, seconds: float) -> AskState:
        """Return how a request stands once it is not pending any more, or when the time is up."""
        ...

    async def claim(self, id: str, digest: str, name: str) -> AskState:
        """Claim an approved call."""
        ...

    async def hold(self, id: str, name: str) -> AskState:
        """Prolong a claim."""
        ...

    async def report(self, id: str, name: str, outcome: Outcome, result: Any = None) -> AskState:
        """Report what came of a claimed call."""
        ...

    async def withdraw(self, id: str, *, why: str = "") -> AskState:
        """Withdraw a request."""
        ...


class Door:
    """Opens where a gate asks when it is first used, and keeps it open in a loop of its own."""

    def __init__(self, place: str | None, token: str | None, policy: Any) -> None:
        self._place = place
        self._token = token
        self._policy = policy
        self._lock = threading.Lock()
        self._loop: OwnLoop | None = None
        self._opened: Any = None
        self._process = 0
        self.asks: AskPlace

    def run(self, made: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer, in a thread without a loop."""
        return self._opened_for(made).result(made)

    def begin(self, made: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to ask, and return the answer that comes."""
        return self._opened_for(made).begin(made)

    async def aio(self, made: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer, in the caller's loop."""
        return await self._opened_for(made).aio(made)

    def _opened_for(self, made: Coroutine[Any, Any, Any]) -> OwnLoop:
        try:
            return self.loop
        except BaseException:
            made.close()
            raise

    def url_of(self, state: AskState) -> str:
        """Return where a person decides a request."""
        place = self._where()
        return f"{place.rstrip('/')}/requests/{state.request}" if _is_url(place) else f"keyturn inbox {place}"

    def open(self) -> AskPlace:
        """Return what answers, opened where that was not done yet."""
        self.loop  # noqa: B018  # which opens it
        return self.asks

    @property
    def loop(self) -> OwnLoop:
        """Return the loop in which it is asked, begun where that was not done yet."""
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # a fork has no thread of its parent's
                loop = OwnLoop("keyturn-gate")
                try:
                    loop.result(self._open())
                except BaseException:
                    loop.close()
                    raise
                self._process = os.getpid()
                self._loop = loop
            return self._loop

    def close(self) -> None:
        """Close it; the next call opens it anew."""
        with self._lock:
            loop = self._loop
            self._loop = None
            if loop is not None and self._process == os.getpid():
                loop.result(self._opened.__aexit__(None, None, None))
                loop.close()

    def _where(self) -> str:
        place = self._place or os.environ.get("KEYTURN_SERVER") or os.environ.get("KEYTURN_JOURNAL")
        if not place:
            raise UserError(_NOWHERE)
        return place

    async def _open(self) -> None:
        place = self._where()
        if _is_url(place):
            from ..client.client import AsyncClient

            token = self._token or os.environ.get("KEYTURN_TOKEN")
            if not token:
                raise UserError("a server answers gated calls to a token with the scope 'ask': set KEYTURN_TOKEN")
            self._opened = AsyncClient(place, token)
        else:
            from ..application.app import App
            from ..asks.agent import ExternalAgent

            self._opened = await App([ExternalAgent()], place, self._policy).__aenter__()
        self.asks = self._opened.asks


def _is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def announce(state: AskState, where: str) -> None:
    """Say once where a call that waits is decided."""
    print(f"{state.tool} is pending approval: {where}", file=sys.stderr, flush=True)
