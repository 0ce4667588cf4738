"""Claim a run to move it; one whose last holders died while they took it up is set aside in place of that.

The claim itself says how many there were, so that an ordinary claim costs nothing more. No user code is called here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from msgspec import structs

from ...core import commands as cm
from ...core.aside import MOST_LOST, SetAside, why_aside
from ...core.effects import pending
from ...core.events import ROOT
from ...core.states import OVER
from ...journal.base import RESERVED, Claim, Journal, leases_along
from ..run.log_cache import log_in
from ..run.new_ids import claimant
from ..run.open_run import TIMELY, TRIES, journal_clock, steady
from ..views.rows import known_open
from .drive import Drive
from .writer import Writer

log = logging.getLogger("keyturn.worker")


async def claim_for(drive: Drive, journal: Journal, ttl_ms: int, decided: Collection[str]) -> Claim | None:
    """Claim a drive's run; None for one whose lease goes along with its first line.

    That is one whose id nobody else knows, or one with calls that were `decided`, which is recorded before any code of
    the user's is asked: until then, two who resume it do no harm.
    """
    new = drive.run.status == "new" and not (drive.live.handed_out or drive.live.named)
    if (new or (decided and _waits(drive))) and leases_along(journal) and not drive.attended:
        drive.live.clock = await journal_clock(journal)
        return None
    return await claimed(journal, drive.run.id, claimant("process"), ttl_ms)


def _waits(drive: Drive) -> bool:
    """Return whether a run only waits for decisions, and nothing is looked up, read or probed before they are recorded.

    What its last holder left is looked at under a claim, and so is a run that a worker takes up: if that ends as it
    does so, it is counted.
    """
    run, waiting = drive.run, drive.run.groups["wait"].values()
    if run.status != "running" or len(run.frames) > 1 or drive.patient or drive.scope(ROOT).session is not None:
        return False
    if run.queued or run.owed or run.groups["started"] or pending(run, first=True):
        return False
    agents = [drive.live.graph.agent_at.get(call.agent) for call in waiting]
    known = all(agent is not None and agent.static_tools() is not None and not agent.handoffs for agent in agents)
    return known and all(call.state == "asked" for call in waiting)


async def claimed(journal: Journal, run: str, worker: str, ttl_ms: int) -> Claim:
    """Claim a run, or raise `Conflict` naming its holder, `SetAside` where three died taking it up."""
    asked = steady()
    claim = await journal.claim(run, worker, ttl_ms)
    try:
        return await accepted(journal, claim, asked, ttl_ms)
    except asyncio.CancelledError:
        await journal.release(claim, claim.at)
        raise


async def accepted(journal: Journal, claim: Claim, asked: float, ttl_ms: int) -> Claim:
    """Return a claim that was asked for at some time, or raise `SetAside` where three died taking its run up.

    A lease that was long on its way may have expired, and the clock that is set by it would be long behind: it is
    renewed.
    """
    run = claim.run
    for _ in range(TRIES):
        if steady() - asked <= TIMELY:
            break
        asked, renewed = steady(), await journal.renew(claim, ttl_ms)
        claim = structs.replace(claim, until=renewed.until, at=renewed.at)
    claim = structs.replace(claim, since=steady())
    if claim.lost < MOST_LOST or run.startswith(RESERVED):
        return claim
    await set_aside(journal, claim)
    raise SetAside(run)


async def stays_failed(drive: Drive) -> bool:
    """Return whether a run that a worker took up failed, and let time pass for it: a person's word resumes it.

    Whatever else made it due, a request that ran out or a store that was copied, resumes nothing.
    """
    if drive.run.status == "failed":
        await drive.commit(cm.Tick())
    return drive.run.status == "failed"


async def set_aside(journal: Journal, claim: Claim) -> None:
    """Record that a run is set aside, and give its lease back; nobody is to look at it again."""
    kept = await log_in(journal, claim.run)
    if kept.steps:
        writer = Writer(kept, journal, await journal_clock(journal))
        writer.claim, writer.open = claim, known_open(kept.run)
        written = await writer.commit(cm.Fail(why_aside(claim.lost), lost=claim.lost))
        if written.events:
            said = "run %s of agent %r is set aside: %d workers died while they executed it; see `keyturn runs`"
            log.error(said, claim.run, kept.run.root_agent, claim.lost)
    owes = kept.run.status in OVER and bool(kept.run.owed)  # one that is over is not set aside, and returns it
    await journal.release(claim, claim.at if owes else None)
