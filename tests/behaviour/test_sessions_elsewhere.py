"""A session that is not where it was: emptied, or kept by another app of the journal. It ends no run."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import MemoryJournal, MemorySession, RunConfig, Runner
from keyturn.journal.rows import Query
from tests.behaviour.test_queued_sessions import Shop, shop
from tests.waiting import until, until_status

__all__ = ["shop"]


@pytest.mark.parametrize("mode", ["supersede", "queue", "refuse"])
async def test_a_run_elsewhere_on_a_session_of_the_same_id_ends_no_other(shop: Shop, store: Any, mode: Any) -> None:
    """Two apps share a journal and have sessions of their own, both named after the customer."""
    elsewhere, config = MemorySession("ann"), RunConfig(paused_session=mode)
    await elsewhere.add_items([{"role": "user", "content": "m0"}])
    async with shop.app(store) as app:
        first = await app.start("shop", "pay ada", session_id="ann")
        await until_status(app, first.id, "waiting")
        await Runner.run(shop.agent(), "m2", session=elsewhere, journal=store, run_config=config)
        [request] = await app.inbox.list(Query(run=first.id, state="open"))
        await app.inbox.approve(request, by="ben")
        assert (await first.result(10)).final_output is not None
    assert shop.paid == ["ada"]


async def test_a_worker_whose_sessions_are_elsewhere_cancels_nothing(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1_700_000_000_000]
    store = MemoryJournal(lambda: now[0])
    async with shop.app(store) as app:
        first = await app.start("shop", "pay ada", session_id="ann")
        await until_status(app, first.id, "waiting")
    here, shop.kept = shop.kept, {}
    [request] = await app.inbox.list(Query(run=first.id, state="open"))
    await app.inbox.approve(request, by="ben")
    async with shop.app(store):
        await until(lambda: "or it is kept elsewhere" in caplog.text)
    shop.kept, now[0] = here, now[0] + 60_000
    async with shop.app(store) as app:
        assert (await app.result(first.id, 10)).final_output is not None
    assert shop.paid == ["ada"]
