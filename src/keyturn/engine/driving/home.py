"""Tell other processes that calls stand open in this one, by a lease of its own: only here can they go on.

A call of a server may ask people while it stands open, on a connection of the process that made it. Whoever takes up
its run elsewhere, once people have answered, leaves it to that process for as long as that lives; then the call is
gone. No run is held for this: the lease has a reserved name, and is renewed while a worker works.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any, cast

from ...core.errors import Conflict
from ...core.run import Call
from ...journal.base import RESERVED, Claim, Journal
from ..logger import error_words, logger

_HOME, _STATE = "keyturn/home", "state"
_TTL_MS = 60_000
_AGAIN = 1.0  # how long a store that did not answer is left alone, in seconds


class Home:
    """Holds the lease of one worker, from the first call that stands open here until the worker ends."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.name = f"{RESERVED}home-{secrets.token_hex(8)}"
        self._claim: Claim | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    async def hold(self, state: Any) -> Any:
        """Return what a call goes on from, with where it stands open; the lease is there before anybody reads that."""
        async with self._opening:
            if self._claim is None:
                self._claim = await self._held()
                self._keeping = asyncio.ensure_future(self._keep())
        return {_HOME: self.name, _STATE: state}

    async def close(self) -> None:
        """Give the lease back: what stands open here is gone."""
        claim, self._claim = self._claim, None
        if self._keeping is not None:
            self._keeping.cancel()
        if claim is not None:
            with contextlib.suppress(Exception):  # it runs out by itself
                await self._journal.release(claim)

    async def _held(self) -> Claim:
        """Take the lease, or renew it; one that expired and was looked at meanwhile is taken anew."""
        if self._claim is not None:
            with contextlib.suppress(Conflict):
                return await self._journal.renew(self._claim, _TTL_MS)
        return await self._journal.claim(self.name, self.name, _TTL_MS)

    async def _keep(self) -> None:
        pause = _TTL_MS / 3_000
        while True:
            await asyncio.sleep(pause)
            try:
                self._claim = await self._held()
                pause = _TTL_MS / 3_000
            except Exception as error:  # there is time to try again; once it has expired, those calls are in doubt
                logger.warning("the lease %s is not renewed, trying again: %s", self.name, error_words(error))
                pause = _AGAIN


def state_of(state: Any) -> Any:
    """Return what a tool goes on from, without where its call stands open.

    >>> state_of({"keyturn/home": "@home-1", "state": 7}), state_of({"state": 7})
    (7, {'state': 7})
    """
    return cast("dict[str, Any]", state)[_STATE] if _named(state) else state


def stands_open(call: Call) -> bool:
    """Return whether a call stands open in some process, in which it goes on once people have answered."""
    return call.need is not None and bool(_named(call.need.state))


async def lives_elsewhere(journal: Journal | None, home: Home | None, call: Call) -> bool:
    """Return whether a call stands open in another process, which lives."""
    where = "" if call.need is None else _named(call.need.state)
    if journal is None or not where or (home is not None and home.name == where):
        return False
    try:
        claim = await journal.claim(where, "a look", 1_000)
    except Conflict:
        return True
    await journal.release(claim)
    return False


def _named(state: Any) -> str:
    """Return where a call stands open, by what it goes on from."""
    given: Any = cast("dict[str, Any]", state).get(_HOME) if isinstance(state, dict) else None
    return given if isinstance(given, str) and given.startswith(RESERVED) else ""
