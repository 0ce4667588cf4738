"""Find out whose turn it is on a session, by the journal's index of the runs on it.

A run that a newer message superseded can never go on: whoever finds it before them ends it, so that nobody waits for
it, and nobody is asked to decide for it any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...core import commands as cm
from ...core.errors import Conflict, LogDamaged
from ...core.events import ROOT
from ...core.run import Run
from ...journal.base import Journal, Sessions
from ...journal.rows import ENDED
from ..driving.drive import Drive
from ..driving.lease import TTL_MS
from ..driving.writer import Writer
from ..logger import error_words, logger
from ..run.log_cache import log_in
from ..run.new_ids import claimant
from ..run.open_run import journal_clock
from .sync import WENT_ON, Superseded, in_turn, superseded

WHY = "superseded: its session went on without it"


async def runs_before(drive: Drive) -> list[str]:
    """Return the runs that come before this one on its session, after those that can never go on are ended."""
    journal = drive.live.journal
    if not isinstance(journal, Sessions):
        return []
    return [run for run in await journal.ahead(drive.run.id) if not await _is_over(drive, journal, run)]


async def check_turn(drive: Drive) -> None:
    """Refuse to resume a run that failed before anything of it was in its session, where others have their turn.

    As it failed, the next one might begin; what was resumed is the last one on its session. One that failed meanwhile
    may still be writing what it said, and what one that is over wrote stands in the session. A run and its forks are
    there beside each other.
    """
    run, journal = drive.run, drive.live.journal
    root = run.frames.get(ROOT)
    if root is None or root.written or _is_fork(run):
        return
    if not in_turn(drive.scope(ROOT), run) or not isinstance(journal, Sessions):
        return
    for name in await journal.ahead(run.id):
        if await _comes_first(journal, name):
            raise Superseded(WENT_ON)
    if await superseded(drive.scope(ROOT), run):
        raise Superseded(WENT_ON)


async def _comes_first(journal: Journal, run: str) -> bool:
    try:
        return not _is_fork((await log_in(journal, run)).run)
    except LogDamaged:
        return False


def _is_fork(run: Run) -> bool:
    return "forked_from" in run.about


async def end_superseded(drive: Drive, settle: Callable[[Drive], Awaitable[None]]) -> None:
    """End a run that can never go on, so that no run waits for it, and settle what it owes to other logs."""
    try:
        await drive.commit(cm.Cancel(why=WHY))
        await settle(drive)
    except Exception as error:  # whoever comes next finds it so, too
        logger.warning("that run %s was superseded is not recorded: %s", drive.run.id, error_words(error))


async def _is_over(drive: Drive, journal: Journal, run: str) -> bool:
    """Return whether nobody has to wait for a run; end it where it was superseded and nobody moves it."""
    if not await _superseded(drive, journal, run):
        return False
    try:
        claim = await journal.claim(run, claimant("process"), TTL_MS)
    except Conflict:  # whoever moves it is about to find out
        return False
    due: int | None = claim.at  # the claim took its due time: whoever moves runs looks at it
    try:
        # Looked at again, since somebody may have moved it before it was held.
        log = await log_in(journal, run)
        if log.run.status == "running" and await _superseded(drive, journal, run):
            writer = Writer(log, journal, await journal_clock(journal))
            writer.claim = claim
            writer.open = writer.known()
            await writer.commit(cm.Cancel(why=WHY))
        over = log.run.status in ENDED
        due = None if over and not log.run.owed else due
        return over
    finally:
        await journal.release(claim, due)


async def _superseded(drive: Drive, journal: Journal, run: str) -> bool:
    """Return whether the session went on without a run that began."""
    try:
        other = (await log_in(journal, run)).run
    except LogDamaged:  # people have to look at it, and it may go on then
        return False
    root = other.frames.get(ROOT)
    began = root is not None and root.prefix is not None and other.status == "running"
    return began and await superseded(drive.scope(ROOT), other)
