"""One altered store, tried in every way, and the judgement: refused or reported, or nothing of it was altered.

Four things may not be: an altered effect, an alteration of what is served that nobody is told of, an error that is no
`KeyturnError`, and a try that does not end.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from keyturn import RunState
from keyturn.audit.checker import check
from keyturn.core.errors import KeyturnError, LogDamaged, StateRejected, StorageError, StoreRestored
from keyturn.inbox.desk import Inbox
from keyturn.inbox.restored import settle
from keyturn.journal.rows import Query

from . import rot_store
from .rot_store import AGENTS, Deed, Truth, World

SECONDS = 120.0  # of a machine that has much else to do
WAYS = ("plain", "plain", "streamed", "worker")
FREE = ("free 9", "free 12", "free 22", "free 71")
LOOKS = ("open", "runs", "requests", "grants", "read", "load", "check", "restored", "settle", "copy")
ALARMING = (LogDamaged, StateRejected, StorageError, StoreRestored)


@dataclass
class Found:
    """What came of one altered store; `again` is what was done twice because its log was cut back to before."""

    reported: list[str] = field(default_factory=list[str])
    broken: list[str] = field(default_factory=list[str])
    served: Any = None
    settled: bool = False
    again: int = 0

    def error(self, where: str, error: BaseException) -> None:
        """Note an error: one of ours is a report, any other a broken promise.

        What is refused in a sound store as well, a word that comes late or a run that is over, reports nothing.
        """
        if isinstance(error, KeyturnError):
            if where in LOOKS or isinstance(error, ALARMING):
                self.reported.append(f"{where}: {type(error).__name__}")
        elif not isinstance(error, asyncio.CancelledError):
            self.broken.append(f"untyped error, {where}: {type(error).__name__}: {error!s:.200}")


class Swallowed(logging.Handler):
    """Hears what a worker logs of errors that it outlives: those too must be ours."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: Found | None = None

    def emit(self, record: logging.LogRecord) -> None:
        args: Iterable[Any] = record.args if isinstance(record.args, tuple) else (record.args,)
        for error in args:
            if isinstance(error, BaseException) and self.found is not None:
                self.found.error("worker", error)
        if record.exc_info and record.exc_info[1] is not None and self.found is not None:
            self.found.error("logged", record.exc_info[1])


async def served(store: Any, runs: Iterable[str], found: Found) -> Any:
    """All that a store says of itself, as far as it says anything."""
    said: dict[str, Any] = {}
    for name, ask in (("runs", store.runs), ("requests", store.requests), ("grants", store.grants)):
        try:
            said[name] = sorted(map(repr, rows := await ask(Query(limit=1_000))))
            if any(_damaged(row) for row in rows):
                found.reported.append(f"{name}: a damaged row")
        except Exception as error:
            found.error(name, error)
    for run in runs:
        try:
            said[run] = await store.read(run)
        except Exception as error:
            found.error("read", error)
    try:
        await store.outbox()
    except Exception as error:
        found.error("outbox", error)
    return said


def _damaged(row: Any) -> bool:
    return "damaged" in (getattr(row, "state", ""), getattr(row, "status", "")) or getattr(row, "damaged", False)


async def tried(store: Any, truth: Truth, before: Any, touched: set[str], dice: random.Random) -> Found:
    """Try all that is done with a store, and judge what came of it.

    Where it is known which runs were altered, those go on and a few of the others; else all.
    """
    runs = list(truth.runs.values())
    way, runs = dice.choice(WAYS), list(dict.fromkeys([*sorted(touched), *dice.sample(runs, 3)])) if touched else runs
    found = Found()
    World.taken()
    known = store.identity
    try:
        async with asyncio.timeout(SECONDS):
            found.served = await served(store, truth.runs.values(), found)
            await _looked_at(store, truth, found, runs)
            alone, more = await _moved(store, way, runs, found)
    except TimeoutError:
        found.broken.append(f"hangs: no end after {SECONDS:g} s")
        return found
    found.settled = found.settled or store.identity != known  # it may have been noticed by whoever began to work
    _judge(truth, alone, more, found)
    if found.served != before and not found.reported:
        differ = [str(name)[:8] for name in before if found.served.get(name) != before[name]]
        found.broken.append(f"lost silently: {', '.join(differ)}")
    return found


async def _looked_at(store: Any, truth: Truth, found: Found, runs: list[str]) -> None:
    """Look at runs and requests, and have the whole checked."""
    for run in runs[:4]:
        try:
            row = await store.runs(Query(run=run))
            await RunState.load(store, run, AGENTS[row[0].agent] if row and row[0].agent in AGENTS else AGENTS["pays"])
        except Exception as error:
            found.error("load", error)
    try:
        report = await check(store, heads=truth.heads)
        found.reported += [f"check: {violation.invariant}" for violation in report.violations]
    except Exception as error:
        found.error("check", error)
    try:
        if await store.restored() is not None:
            found.reported.append("restored")
            found.settled = True
    except Exception as error:
        found.error("restored", error)


async def _moved(store: Any, way: str, runs: list[str], found: Found) -> tuple[list[Deed], list[Deed]]:
    """Let what is due go on, then have people decide all that they are shown, and let that go on."""
    if found.settled and way != "worker":  # a worker settles by itself
        try:
            await settle(store)
        except Exception as error:
            found.error("settle", error)
    if way == "worker" or not found.settled:  # whoever resumes a run of a restored store has said a word
        await _driven(store, way, runs, found)
    alone = World.taken()
    more: list[Deed] = []
    for _ in range(2):
        try:
            rows = [row for row in await store.requests(Query(state="open")) if row.run in runs]
            for row in rows[:2]:
                await Inbox(store).get(row.id)
            for error in await rot_store.decide(store, rows):
                found.error("decide", error)
        except Exception as error:
            found.error("list", error)
        await _driven(store, way, runs, found)
        more += World.taken()
    return alone, more


async def _driven(store: Any, way: str, runs: list[str], found: Found) -> None:
    try:
        for error in await rot_store.drive(store, way, runs):
            found.error(way, error)
    except Exception as error:
        found.error(way, error)


def _judge(truth: Truth, alone: list[Deed], more: list[Deed], found: Found) -> None:
    """Whether the world saw only what was decided: those bytes, once, and not before somebody said so."""
    for deed in alone:
        if found.settled or truth.alone.get(deed.key) != deed.what:
            found.broken.append(f"altered effect: {deed.what} of {deed.run[:6]} without a word")
    possible = truth.all | (truth.asked | truth.done if found.settled else {})
    for deed in more:
        if found.settled and deed.what in FREE:  # a run that was over goes on from where the copy has it
            continue
        if possible.get(deed.key) != deed.what:
            found.broken.append(f"altered effect: {deed.what} of {deed.run[:6]}, once people decided")
    again = [what for what, count in Counter(alone + more).items() if count > 1]
    found.broken += [f"altered effect: {deed.what} of {deed.run[:6]} more than once" for deed in again]
