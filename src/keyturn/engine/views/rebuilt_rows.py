"""Rebuild the rows of a run from its verified log, where a row of the store is damaged."""

from __future__ import annotations

from ...core.errors import RunMissing
from ...journal.base import Journal
from ...journal.rows import Changes
from ..run.log_cache import log_in
from .rows import replayed


async def rows_in(journal: Journal, run: str) -> Changes:
    """Rebuild all rows of a run; raise `LogDamaged` where its log does not verify either."""
    log = await log_in(journal, run)
    if not log.steps:
        raise RunMissing(run)
    return replayed(log.steps)
