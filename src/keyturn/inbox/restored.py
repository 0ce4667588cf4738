"""Settle a store that was brought back from a copy: whatever it lets run may have run, and people say what became.

Every open run of every tenant is told once, in its log. Only when all have been told may the store be worked on, so
that this can be interrupted anywhere and begun again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from ..core import commands as cm
from ..core.errors import Conflict, KeyturnError, RunMissing
from ..core.states import WAITING
from ..journal.base import Store
from ..journal.rows import Query
from .desk import Inbox

log = logging.getLogger("keyturn.worker")
_OVER = ("finished", "cancelled", "erased")
_PAGE = 500


@dataclass
class Settled:
    """How many open runs were told, how many of their calls are in doubt or ask, and which runs cannot be read.

    >>> print(Settled(runs=2, doubts=1))
    2 open runs stopped; 1 calls in doubt, 0 ask anew
    """

    runs: int = 0
    doubts: int = 0
    asked: int = 0
    unread: int = 0

    def __str__(self) -> str:
        more = f"; {self.unread} runs cannot be read and stay as they are (keyturn check)" if self.unread else ""
        return f"{self.runs} open runs stopped; {self.doubts} calls in doubt, {self.asked} ask anew{more}"


async def settle(store: Any) -> Settled | None:
    """Put in doubt what a restored store lets run; None where the store is not one.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(settle(MemoryJournal()))
    """
    restored = getattr(store, "restored", None)
    why = None if restored is None else await restored()
    if why is None:
        return None
    done = Settled()
    for tenant in await store.tenants():
        await _settle_tenant(store.of(tenant), f"its store {why}", done)
    await store.settled()
    log.warning("the store %s: %s", why, done)
    return done


async def _settle_tenant(store: Store, why: str, done: Settled) -> None:
    inbox, after = Inbox(store), None
    while page := await store.runs(Query(after=after, limit=_PAGE)):
        for row in page:
            if row.status not in _OVER:
                await _settle_run(inbox, row.run, why, done)
        after = (page[-1].started_at, page[-1].run)


async def _settle_run(inbox: Inbox, run: str, why: str, done: Settled) -> None:
    try:
        told = await inbox.tell(run, cm.Restored(why))
    except (Conflict, RunMissing):  # it is over
        return
    except KeyturnError as error:
        log.error("run %s cannot be put in doubt, and nothing moves it: %s", run, error)
        done.unread += 1
        return
    done.runs += 1
    waiting = [call.state for call in told.groups["wait"].values() if call.state in WAITING]
    done.doubts += waiting.count("in_doubt")
    done.asked += waiting.count("asked")
