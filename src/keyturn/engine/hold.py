"""Holding a run while it is driven: claimed, renewed for as long as that takes, and given back whatever happens.

Only whoever holds a run may move it. If the hold is lost, the next append is refused before anything more is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from ..core.errors import Conflict
from ..journal.base import Journal
from .drive import Drive

TTL_MS = 60_000


@contextlib.asynccontextmanager
async def held(drive: Drive, journal: Journal, worker: str) -> AsyncGenerator[None]:
    """Hold the drive's run; `Conflict` names who has it if somebody does."""
    drive.claim = await journal.claim(drive.run.id, worker, TTL_MS)
    renewing = asyncio.ensure_future(_renew(drive, journal))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.shield(journal.release(drive.claim))


async def _renew(drive: Drive, journal: Journal) -> None:
    while drive.claim is not None:
        await asyncio.sleep(TTL_MS / 3_000)
        try:
            drive.claim = await journal.renew(drive.claim, TTL_MS)
        except Conflict:  # taken over: the next append says so, where it can be handled
            return
