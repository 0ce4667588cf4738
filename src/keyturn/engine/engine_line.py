"""Keep an engine open, and hand it what this process's commits make due, off the write path.

An engine that cannot be reached delays no commit and fails no decision: that is logged, and the reconcilers find what
it was not handed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

from ..core.errors import UserError
from ..fleet.base import Engine, Wake
from ..journal.base import RESERVED, Store
from ..journal.due_feed import ERASED, DueFollower, MadeDue
from ..journal.optional import NamesDue
from .logger import error_words
from .mover import Mover
from .tenant_rounds import TenantMovers

log = logging.getLogger("keyturn.engine")

_AGAIN = 1.0  # how long an engine that failed is left alone, in seconds; longer each time that it fails again
_AT_MOST = 30.0
_OPENING = 2.0  # for how long a worker waits for its engine, before it works without
_WAKING = 10.0  # for how long wakes are offered to an engine that does not answer
_LAST = 2.0  # and the last ones, as the process ends; and for how long it is asked how it is


class EngineLine:
    """Connects one process with its engine, from the first `begin` to the last `end`; without one it does nothing.

    Those who use it are an app, or the apps of several tenants, which have an engine together (`of_tenants`). `deaf`
    counts the runs that a reconciler moved itself, since the engine did not in time; `error` is why the engine cannot
    be used now.
    """

    def __init__(self, store: Store, engine: Engine | None = None, *, of_tenants: bool = False) -> None:
        self._store, self._engine = store, engine
        self.of_tenants = of_tenants
        self._users = set[object]()
        self.deaf = 0
        self.error: Exception | None = None
        self._follower: DueFollower | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._open, self._refused = asyncio.Event(), asyncio.Event()
        self._working = False

    @property
    def engine(self) -> Engine | None:
        """Return the engine; None where workers ask the journal."""
        return self._engine

    @engine.setter
    def engine(self, engine: Engine | None) -> None:
        if self._keeping is not None:
            raise UserError("the engine of an app that is open cannot be changed: stop the app first")
        self._engine = engine

    def begin(self, user: object = None) -> None:
        """Open the engine, and hand it from now on what is made due here."""
        self._users.add(user)
        if self.engine is not None and self._keeping is None:
            self._refused.clear()
            store, of_all = self._store, self.of_tenants
            self._follower = store.follow_due(of_all=of_all) if isinstance(store, NamesDue) else None
            self._keeping = asyncio.ensure_future(self._keep(self.engine))

    async def end(self, user: object = None) -> None:
        """Hand over what is left, and close the engine, unless others use it."""
        self._users.discard(user)
        if self._users:
            return
        keeping, follower = self._keeping, self._follower
        self._keeping, self._follower = None, None
        if follower is not None:
            follower.close()
            if self.engine is not None and self._open.is_set():
                await self._hand_over_last(self.engine, follower.rest())
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait({keeping})

    async def opened(self) -> None:
        """Wait until the engine is open, for a while; raise why it refuses its settings."""
        states = [asyncio.ensure_future(state.wait()) for state in (self._open, self._refused)]
        await asyncio.wait(states, timeout=_OPENING, return_when=asyncio.FIRST_COMPLETED)
        for state in states:
            state.cancel()
        if self._refused.is_set() and self.error is not None:
            raise self.error

    async def work(self, engine: Engine, mover: Mover | TenantMovers, leaving: asyncio.Future[Any]) -> None:
        """Let the engine hand runs to a mover, until that is to leave; one worker of a process is enough."""
        if self._working:
            return
        self._working = True
        handing = asyncio.ensure_future(self._work(engine, mover))
        try:
            await asyncio.wait({leaving, handing}, return_when=asyncio.FIRST_COMPLETED)
            engine.stop()
            await handing
        finally:
            handing.cancel()
            self._working = False

    async def _work(self, engine: Engine, mover: Mover | TenantMovers) -> None:
        while not mover.leaving:
            await self._open.wait()
            try:
                await engine.work(mover)
            except Exception as error:  # an engine of anybody: the reconciler goes on without it
                self._failed("hands over no runs", error)
                await asyncio.sleep(_AGAIN)

    async def wake(self, wakes: Sequence[Wake], seconds: float = _WAKING) -> bool:
        """Hand wakes to the engine; return whether it was there, and took them."""
        if self.engine is None or not self._open.is_set():
            return False
        return not wakes or await self._tried(self.engine.wake(wakes), seconds)

    async def tidy(self, before: int) -> None:
        """Let the engine delete what is done."""
        if self.engine is not None and self._open.is_set():
            await self._tried(self.engine.tidy(before), _WAKING)

    async def backlog(self) -> int:
        """Return how many wakes the engine holds; 0 where it does not say, or not soon."""
        if self.engine is None or not self._open.is_set():
            return 0
        try:
            async with asyncio.timeout(_LAST):
                return (await self.engine.health()).backlog or 0
        except Exception as error:  # a number is no reason to fail
            self._failed("does not answer", error)
            return 0

    async def _keep(self, engine: Engine) -> None:
        pause = _AGAIN
        while True:
            try:
                async with engine.open(None if self.of_tenants else getattr(self._store, "tenant", "default")):
                    pause, self.error = _AGAIN, None
                    self._open.set()
                    await self._forward(engine)
            except UserError as error:
                self.error = error
                self._refused.set()
                log.error("the engine cannot be used, and workers look at the journal by themselves: %s", error)
                return
            except Exception as error:  # its server may be away
                self._failed("cannot be opened", error)
            finally:
                self._open.clear()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _AT_MOST)

    async def _forward(self, engine: Engine) -> None:
        """Hand over what is made due, for as long as the engine is open."""
        while self._follower is not None:
            await self._hand_over(engine, await self._follower.next(), _WAKING)
        await asyncio.Event().wait()

    async def _hand_over(self, engine: Engine, made: Sequence[MadeDue], seconds: float) -> None:
        runs = [each for each in made if not each.run.startswith(RESERVED)]
        await self.wake([Wake(*each) for each in runs if each.cause != ERASED], seconds)
        for each in runs:
            if each.cause == ERASED and not await self._tried(engine.forget(each.tenant, each.run), seconds):
                break  # it does not answer now, and tidies later

    async def _hand_over_last(self, engine: Engine, made: Sequence[MadeDue]) -> None:
        with suppress(TimeoutError):  # however many runs were erased
            async with asyncio.timeout(2 * _LAST):
                await self._hand_over(engine, made, _LAST)

    async def _tried(self, asking: Awaitable[Any], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await asking
            self.error = None
        except Exception as error:  # what it did not take is found by the reconcilers
            self._failed("does not answer", error)
            return False
        return True

    def _failed(self, what: str, error: Exception) -> None:
        if self.error is None:
            log.warning("the engine %s, trying again; runs are moved later meanwhile: %s", what, error_words(error))
        self.error = error
