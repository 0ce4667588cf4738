"""Settle a store restored from a copy: whatever it lets run may have run, and people say what became of it.

Every open run of every tenant is told once, in its log, with the id of this restore. Only when all of which anything is
kept have been told may the store be worked on: this can be interrupted anywhere and begun again, and a run that cannot
be read keeps the store from being settled until it is mended or taken away.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from ..core import commands as cm
from ..core.errors import Conflict, KeyturnError, RunMissing, StorageError
from ..core.seal import verify
from ..core.states import OVER, WAITING
from ..directory.book import NAME as DIRECTORY
from ..directory.book import Book
from ..engine.run.open_run import chain_of
from ..journal.base import Store
from ..journal.rows import Query
from .desk import Inbox

log = logging.getLogger("keyturn.worker")


@dataclass
class Settled:
    """Counts the open runs that were told, and their calls in doubt or asked anew, and lists unreadable runs.

    >>> print(Settled(runs=2, doubts=1))
    2 open runs stopped; 1 calls in doubt, 0 ask anew
    """

    runs: int = 0
    doubts: int = 0
    asked: int = 0
    left: list[str] = field(default_factory=list[str])

    @property
    def unread(self) -> int:
        """Return how many runs cannot be read."""
        return len(self.left)

    def __str__(self) -> str:
        said = f"{self.runs} open runs stopped; {self.doubts} calls in doubt, {self.asked} ask anew"
        if not self.left:
            return said
        named = ", ".join(map(ascii, self.left[:5])) + (", ..." if len(self.left) > 5 else "")
        return (
            f"{said}; the store is not settled and nothing runs in it: {len(self.left)} runs cannot be read ({named}); "
            "keyturn check says what is wrong with them; bring them back whole, with the keys that sealed them, or "
            "take all that is kept of them away"
        )


async def settle(store: Any) -> Settled | None:
    """Put in doubt what a restored store lets run; return None where the store is not one.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(settle(MemoryJournal()))
    """
    restored = getattr(store, "restored", None)
    if restored is None:
        return None
    store.moved()
    why = await restored()
    if why is None:
        return None
    store.keys()  # without a key nothing can be told, and nothing is marked
    nonce, done = await store.taken_for_restored(), Settled()
    for tenant in await store.tenants():
        view = store.of(tenant)
        told = cm.RecordRestore(f"its store {why}", nonce)
        for run in [each for each in await view.every_run() if each != DIRECTORY]:
            if await restored() is None:  # another process was quicker: what was decided and begun since holds
                log.info("the store was settled by another process")
                return done
            await _settle_run(view, run, told, done)
        if await restored() is not None:
            await _settle_directory(view, told, done)
    if not done.left:
        await store.settled()
    log.warning("the store %s: %s", why, done)
    return done


async def settle_whole(store: object) -> None:
    """Settle a store, or raise `StorageError` naming the runs that keep it from being settled."""
    done = await settle(store)
    if done is not None and done.left:
        raise StorageError(str(done))


async def _settle_run(store: Store, run: str, told: cm.RecordRestore, done: Settled) -> None:
    try:
        row = next(iter(await store.runs(Query(run=run))), None)
        if row is not None and row.status in OVER:
            return
        if row is not None and row.status == "erased":
            _whole(run, verify(chain_of(store, run), await store.hashes(run)))
            return
        await _tell(store, run, told, done)
    except KeyturnError as error:
        log.error("run %s cannot be put in doubt, and nothing moves it: %s", ascii(run), ascii(str(error)))
        done.left.append(run)


async def _settle_directory(store: Store, told: cm.RecordRestore, done: Settled) -> None:
    try:
        await Book(store).restored(told.why, told.nonce)
    except KeyturnError as error:
        log.error("the directory cannot be told that its store was restored: %s", ascii(str(error)))
        done.left.append(DIRECTORY)


def _whole(run: str, bad: int | None) -> None:
    if bad is not None:
        raise StorageError(f"run {run!r} is not what was written, at line {bad}")


async def _tell(store: Store, run: str, told: cm.RecordRestore, done: Settled) -> None:
    try:
        now = await Inbox(store).tell(run, told)
    except RunMissing:
        if await store.hashes(run) or await store.requests(Query(run=run, limit=1)):
            raise  # its row was taken away, and may be put back
        return
    except Conflict:  # it is over
        return
    done.runs += 1
    waiting = [call.state for call in now.groups["wait"].values() if call.state in WAITING]
    done.doubts += waiting.count("in_doubt")
    done.asked += waiting.count("asked")
