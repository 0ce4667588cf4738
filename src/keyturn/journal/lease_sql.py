"""Take and give back the lease on a run in a database, by itself or in the transaction of lines."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any

import msgspec

from ..core.errors import Conflict, LogDamaged
from . import statements as say
from .base import Claim, Lease, LostRace, RunHeld
from .optional import FleetLimits
from .rows import ENDED
from .statements import SqlDialect
from .store_thread import StoreConnection

# No claim is made for longer: one that ends later was made while the clock was ahead.
LONGEST_MS = 3_600_000


NO_ROW = "cannot be reached: what the journal's table of runs says of the run is not what was written there"


class DueWhen(IntEnum):
    """Says when a run that was written to, or given back, is due; `LATER` also where the next on its session may be."""

    NEVER = 0
    LATER = 1
    NOW = 2


class HeldAhead(Conflict):
    """Raised where a run is held until a time at which no claim can end."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run!r} was claimed while the clock was ahead; try again when its claim is over")


class LogPlace(msgspec.Struct, frozen=True, array_like=True):
    """Holds where a log ends, who holds its run, when that is due, and the time."""

    head: Annotated[int, msgspec.Meta(ge=0)]
    epoch: int
    holder: str | None
    until: int
    due: int | None
    status: str
    started_at: int
    session: str
    takers: Annotated[int, msgspec.Meta(ge=0)]
    priority: int
    now: int


def place_in(run: str, row: tuple[Any, ...]) -> LogPlace:
    """Return where a run is, by its row and the time."""
    head, epoch, holder, until, *others = row
    try:
        return msgspec.convert((head, epoch, holder, until or 0, *others), LogPlace)
    except msgspec.ValidationError:
        raise LogDamaged(run, 0, NO_ROW) from None


def check_free(run: str, at: LogPlace) -> None:
    """Raise `Conflict` naming who holds a run."""
    if at.holder is not None and at.now < at.until:
        if at.until > at.now + LONGEST_MS:
            raise HeldAhead(run)
        raise RunHeld(run, at.holder)


def check_takable(run: str, at: LogPlace, lease: Lease) -> None:
    """Raise `Conflict` naming who holds a run, or `LostRace` where it was not given back and that is asked for."""
    check_free(run, at)
    if lease.orderly and (at.holder is not None or at.takers):
        raise LostRace(f"the last holder of run {run!r} did not give it back")


def held_runs(db: StoreConnection, tenant: str) -> tuple[int, int]:
    """Return how many runs are held, of a tenant and of all."""
    [(of_tenant, of_all)] = db.execute(say.HELD_RUNS, tenant, db.now())
    return int(of_tenant), int(of_all)


def check_room(db: StoreConnection, dialect: SqlDialect, tenant: str, limits: FleetLimits) -> None:
    """Raise `FleetFull` where no more runs may be held; nobody else counts them until this is committed."""
    if dialect.alone:
        db.execute(dialect.alone, "@limits")
    limits.check(*held_runs(db, tenant))


def take(db: StoreConnection, tenant: str, run: str, at: LogPlace, worker: str, ttl_ms: int) -> tuple[Claim, LogPlace]:
    """Take the lease on a run that is free; return the claim, and where the run is then."""
    made = Claim(run, worker, at.epoch + 1, at.now + ttl_ms, at.now, at.head, at.takers)
    db.tell(say.TAKEN, made.epoch, worker, made.until, tenant, run)
    session = at.session
    if session and at.status in ENDED:  # its last holder never gave it back: whoever resumes it comes last
        db.tell(say.GONE, tenant, run)
        session = ""
    held = msgspec.structs.replace(at, epoch=made.epoch, holder=worker, until=made.until, due=None, session=session)
    return made, held


def give_back(db: StoreConnection, tenant: str, claim: Claim, at: LogPlace, due: int | None) -> DueWhen:
    """Give the lease back; return when the run, or the next one on its session, may be due."""
    times = [time for time in (at.due, due) if time is not None]
    db.tell(say.RELEASED, min(times, default=None), claim.lost if claim.untried else 0, tenant, claim.run)
    over = bool(at.session) and at.status in ENDED
    if over:  # and its last words are in the session: the next one may begin
        db.tell(say.GONE, tenant, claim.run)
    if times and min(times) <= at.now:
        return DueWhen.NOW
    turn = at.status == "queued"  # which may have come while it was held
    return DueWhen.LATER if times or over or turn else DueWhen.NEVER
