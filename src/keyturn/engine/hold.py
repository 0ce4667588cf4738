"""Holding a run while it is driven: claimed, renewed for as long as that takes, and given back whatever happens.

Only whoever holds a run may move it. If the hold is lost, the next append is refused before anything more is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator

from ..core.errors import Conflict
from ..journal.base import Claim, Journal
from .drive import Drive
from .rows import known_open

TTL_MS = 60_000


@contextlib.asynccontextmanager
async def held(drive: Drive, journal: Journal, worker: str) -> AsyncGenerator[None]:
    """Hold the drive's run; `Conflict` names who has it if somebody does."""
    drive.claim = await journal.claim(drive.run.id, worker, TTL_MS)
    drive.live.open = known_open(drive.run)
    _set_clock(drive, drive.claim)
    renewing = asyncio.ensure_future(_renew(drive, journal))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.shield(journal.release(drive.claim))


def _set_clock(drive: Drive, claim: Claim) -> None:
    """Time is the journal's: what a claim says, and since then what this process counts."""
    if claim.at:
        begun = time.monotonic()
        drive.live.clock = lambda: claim.at + int((time.monotonic() - begun) * 1_000)


async def _renew(drive: Drive, journal: Journal) -> None:
    while drive.claim is not None:
        await asyncio.sleep(TTL_MS / 3_000)
        try:
            drive.claim = await journal.renew(drive.claim, TTL_MS)
            _set_clock(drive, drive.claim)
        except Conflict:  # taken over: the next append says so, where it can be handled
            return
