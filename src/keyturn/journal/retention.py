"""Retention: erase runs that ended long ago; the digests of their lines stay, so that their chains still verify.

What is not over is never old: a request may wait for weeks, a review as well, and a run that failed may be resumed.
"""

from __future__ import annotations

from typing import Any

from ..core.codec import Log
from ..core.errors import Conflict, LogDamaged, UserError
from ..core.gate.reviews import open_review
from ..core.queueing import OWNED
from ..core.quota import LIMIT
from ..core.seal import Chain
from ..core.states import OVER
from ..support.keys import ring
from .base import Store
from .rows import Query


async def ended_before(store: Store, at: int) -> list[str]:
    """Return the runs that were over at that time, in milliseconds since 1970."""
    old = list[str]()
    for status in OVER:
        query = Query(state=status)
        while page := await store.runs(query):
            hints = [row.run for row in page if row.updated_at < at]
            old += [run for run in hints if await _was_over(store, run, at)]  # by their own logs
            query = Query(state=status, after=(page[-1].started_at, page[-1].run))
    return old


async def _was_over(store: Store, run: str, at: int) -> bool:
    """Return whether a run's verified log says that it was over then; one that does not verify is left alone."""
    try:
        chain = Chain(getattr(store, "keys", ring), getattr(store, "tenant", "default"), run)
        log = Log.opened(await store.read(run), chain)
    except (LogDamaged, UserError):
        return False
    over = log.run.status in OVER and log.run.now < at and not _is_open(log)
    return over and not _reaches_on(log, at) and not _counts_on(log, at)


def _is_open(log: Log) -> bool:
    """Return whether a run that is over has a claimed call or an open review, or owes other logs."""
    claimed = any(call.held_until is not None for call in log.run.groups["started"].values())
    return claimed or bool(log.run.owed) or any(open_review(log.run, call) for call in log.run.reviews)


def _reaches_on(log: Log, at: int) -> bool:
    """Return whether other runs may still use what was granted in this one."""
    used = log.run.grant_uses
    reaching = [grant for grant in log.run.grants.values() if grant.reach and grant.call is None]
    standing = [grant for grant in reaching if grant.uses is None or used[grant.id] < grant.uses]
    return any(grant.expires_at is None or grant.expires_at >= at for grant in standing)


def _counts_on(log: Log, at: int) -> bool:
    """Return whether other runs still need a log: one that counts for a limit, or names the owner of a session."""
    if OWNED in log.run.about:  # whose a session is holds as long as the session, of which no journal knows the end
        return True
    if LIMIT not in log.run.about:
        return False
    per: Any = log.run.about.get("per_ms")
    return not isinstance(per, int) or log.run.now + 2 * per >= at


async def erase_ended(store: Store, at: int) -> int:
    """Erase them, but for one that somebody holds just now; return how many there were.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(erase_ended(MemoryJournal(), 0))
    0
    """
    count = 0
    for run in await ended_before(store, at):
        try:
            await store.erase(run)
        except Conflict:
            continue
        count += 1
    return count
