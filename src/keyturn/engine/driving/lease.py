"""Hold the lease of a run while it is driven: claim it, renew it, and release it whatever happens.

Only whoever holds the run may move it. If the hold is lost, the next append is refused before anything more is done.
What others say meanwhile, a decision or that it shall end, is heard while it is held, and not only afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import structs

from ...core.codec import WrittenByNewer
from ...core.effects import wakes_at
from ...core.errors import Conflict, LogDamaged, StorageError
from ...core.states import OVER
from ...journal.base import Claim, Journal, Records
from ..logger import error_words, logger
from ..run.log_cache import kept_in
from ..run.new_ids import claimant
from ..run.open_run import TIMELY, TRIES, counted_from, steady
from ..views.rows import known_open
from .drive import Drive
from .hold import Hold, MovedMeanwhile, in_the_middle
from .taking import claimed

TTL_MS = 60_000
LATER_MS = 60_000
# How long a run is left alone that waits for a source of tools which cannot be reached.
SOURCE_MS = 10_000
FROZEN_MS = 3_600_000

# Most drives are over before anybody can have said anything.
_BEFORE_LISTENING = 0.05
# How long a store that did not answer is left alone.
_LISTEN_AGAIN = 1.0
# How long what cannot be read is left alone.
_READ_AGAIN = 10.0


@contextlib.asynccontextmanager
async def under_lease(
    drive: Drive, journal: Journal, claim: Claim | None, ttl_ms: int = TTL_MS
) -> AsyncGenerator[None]:
    """Hold the drive's run under a claim that is renewed in time, and give it back.

    Without a claim it is taken along with the first line: of a run whose id was made here, which nobody can have, or of
    one that is as it was read.
    """
    drive.lease_ms = ttl_ms
    beside = {ttl_ms / 3_000: partial(_renew, drive, ttl_ms), _BEFORE_LISTENING: partial(_listen, drive, journal)}
    worker = claimant("process") if claim is None else claim.worker
    hold = drive.hold = Hold(drive, journal, worker, beside, known=claim is None and drive.run.status != "new")
    if claim is not None:
        hold.begin(claim)
        _set_clock(drive, claim)
    later = LATER_MS
    try:
        log = drive.live.log
        moved = claim is not None and claim.head != len(log)
        if moved or (log.steps and log.chain is None):  # by others, or it came without it
            await drive.catch_up()
        drive.open = known_open(drive.run)
        yield
        later = 0
        kept_in(journal, drive.live.log)
    except WrittenByNewer:
        drive.stops.add("not_here")
        raise
    except LogDamaged:
        drive.stops.add("damaged")
        raise
    except StorageError:
        drive.stops.add("store_failed")
        raise
    finally:
        hold.end()
        await asyncio.shield(_give_back(drive, journal, later))


async def as_it_is(drive: Drive, take_up: Callable[[], Awaitable[None]]) -> None:
    """Take a run up; under a claim, and anew, where others moved it before its first line could take the lease."""
    try:
        await take_up()
    except MovedMeanwhile:
        hold, journal = drive.hold, drive.journal
        assert isinstance(hold, Hold)
        assert journal is not None
        claim = await claimed(journal, drive.run.id, hold.worker, drive.lease_ms)
        hold.begin(claim)
        _set_clock(drive, claim)
        if claim.head != len(drive.live.log):
            await drive.catch_up()
        await take_up()


async def to_the_end(drive: Drive, work: Coroutine[Any, Any, None]) -> None:
    """Do what a cancel must not cut off; of that a caller who leaves meanwhile waits for what is being recorded."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            drive.stops.add("left")
        raise


async def is_with_others(drive: Drive, error: BaseException) -> bool:
    """Return whether a run that a drive gave back with its last line is held by others now, or was moved by them."""
    if drive.hold is None or drive.journal is None or drive.claim is not None:
        return False
    return isinstance(error, Conflict) or await drive.journal.head(drive.run.id) != len(drive.live.log)


async def _give_back(drive: Drive, journal: Journal, later: int) -> None:
    """Release the lease, with the time when the run is due."""
    if "unanswered" in drive.stops:
        logger.warning("run %s is held until its lease runs out: a write to its session was cut off", drive.run.id)
        return
    try:
        async with drive.at_rest():  # a step that came between the two would leave the run undue
            held = None if drive.hold is None else await drive.hold.taken()
            if held is not None:
                claim = structs.replace(held, untried="not_here" in drive.stops)
                await journal.release(claim, await _due(drive, journal, claim, later))
    except Exception as error:  # the lease runs out by itself, and then the run is due
        logger.warning("run %s is held until its lease runs out: %s", drive.run.id, error_words(error))


async def _due(drive: Drive, journal: Journal, claim: Claim, later: int) -> int | None:
    """When somebody should look at the run; None where only people can move it."""
    stops = drive.stops
    left = stops & {"leaving", "cut_short", "not_here"}
    due = wakes_at(drive.run)
    if drive.run.queued and drive.run.status == "running" and (left or later):
        due = await _now(drive, journal) + (0 if left else later)  # else it is due once its turn has come
    if "cut_short" in stops or _in_the_middle(drive):
        later = SOURCE_MS if "source_down" in stops else later
        due = await _now(drive, journal) + (0 if left else later)
    if "damaged" in stops:  # people have to mend it: until then it is looked at now and then, and others go on
        due = await _now(drive, journal) + FROZEN_MS
    elif await _unread(drive, journal, claim):
        due = await _now(drive, journal)
    elif due is not None and later and not left and due <= (now := await _now(drive, journal)):
        due = now + later  # it could not be moved, and would be taken up again and again
    return due


async def _unread(drive: Drive, journal: Journal, claim: Claim) -> bool:
    """Return whether the journal has steps that are not known here: the claim took the due time that they gave the run.

    Others appended them before the claim, or the last step of this drive was kept and the store failed to say so.
    """
    known = len(drive.live.log)
    return claim.head > known or ("store_failed" in drive.stops and await journal.head(claim.run) > known)


def _in_the_middle(drive: Drive) -> bool:
    """Return whether a worker should go on with the run, which its caller did not stop."""
    return in_the_middle(drive.run) and (drive.run.status in OVER or "after_turn" not in drive.stops)


async def _now(drive: Drive, journal: Journal) -> int:
    """Read the journal's time again, since clocks are set."""
    return await journal.now() if isinstance(journal, Records) else drive.live.clock()


def _set_clock(drive: Drive, claim: Claim) -> None:
    """Set the clock by the journal's time: what a claim says, and what this process counts since it had it.

    Behind by as long as the claim was on its way, and never ahead: nothing runs out before its time.
    """
    if claim.at:
        drive.live.clock = counted_from(claim.at, steady() if claim.since is None else claim.since)


async def still_held(drive: Drive) -> None:
    """Renew a lease that may have expired, before something is written where no lease is checked.

    A process that stood still for longer than its lease finds out here that another one has the run: `Conflict`.
    """
    for _ in range(TRIES):
        claim = drive.claim
        if claim is None or not claim.at or claim.until - drive.clock() >= drive.lease_ms // 3:
            return
        await renewed(drive)


async def renewed(drive: Drive) -> None:
    """Renew the lease, and set the clock by an answer that was not long on its way."""
    journal, claim = drive.journal, drive.claim
    assert journal is not None
    assert claim is not None
    asked, held = steady(), await journal.renew(claim, drive.lease_ms)
    drive.claim = structs.replace(held, since=steady())
    if steady() - asked <= TIMELY:
        _set_clock(drive, drive.claim)


async def _renew(drive: Drive, ttl_ms: int) -> None:
    while drive.claim is not None:
        try:
            await renewed(drive)
        except Conflict as error:  # a tool that waits for a thread would begin, against what others say of its call
            logger.info("run %s was taken over: %s", drive.run.id, error_words(error))
            drive.stops.add("taken_over")
            drive.rouse()
            return
        except Exception as error:  # there is time to try again before the lease runs out
            logger.warning("the lease of run %s is not renewed, trying again: %s", drive.run.id, error_words(error))
        await asyncio.sleep(ttl_ms / 3_000)


async def _listen(drive: Drive, journal: Journal) -> None:
    """Take in what others append while the run is held; a run that requires a decision has no next step of its own."""
    damaged = False
    while True:
        try:
            await _follow(drive, journal)
            return
        except LogDamaged as error:  # the next append says so, where it can be handled; a missing key may come yet
            if not damaged:
                logger.warning("commands to run %s cannot be read: %s", drive.run.id, error_words(error))
            damaged = True
            await asyncio.sleep(_READ_AGAIN)
            continue
        except Exception as error:  # a store of the user may raise anything, and memory may run out
            logger.warning("commands to run %s are not read, trying again: %s", drive.run.id, error_words(error))
        await asyncio.sleep(_LISTEN_AGAIN)


async def _follow(drive: Drive, journal: Journal) -> None:
    place = len(drive.live.log)
    async with contextlib.aclosing(journal.watch(drive.run.id, place, others=True)) as lines:
        async for _line in lines:
            place += 1
            await drive.heard(place)  # which reads it again, and verifies what it reads
