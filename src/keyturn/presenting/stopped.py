"""Tell of one run how it stands, by its log where its row was altered, and where it failed."""

from __future__ import annotations

from ..engine.run.log_cache import log_in
from ..engine.views.rows import rows_in
from ..journal.base import Store
from ..journal.rows import RunRow
from .facts import Story


async def story_of(store: Store, row: RunRow) -> Story:
    """Return how a run stands; its row is made anew of the log where it is not what was written."""
    if row.status == "erased":
        return Story(row)
    log = await log_in(store, row.run)
    if row.status == "damaged":
        row = (await rows_in(store, row.run)).run
    return Story(row, log.run.traceback)
