"""Borrow the standing decisions of other runs for calls that would ask.

Only a call that is about to ask borrows, and only before it does: what waits already is decided by people. Each use is
recorded in the log of the run that gave the grant before the call goes on, and that log is verified as any other.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Any

from msgspec import MsgspecError
from msgspec.json import decode
from msgspec.structs import replace

from ...core import commands as cm
from ...core.approval import Approval
from ...core.call_ids import call_id
from ...core.errors import Conflict, LogDamaged, NotPending
from ...core.gate.grants import covers, grant_for
from ...core.gate.lending import borrowed
from ...core.records import GrantTerms
from ...core.run import Call
from ...journal.rows import GrantRow, Query
from ..driving.drive import Drive
from ..driving.writer import write_to
from ..facts.reaches import reaches_of
from ..logger import error_words, logger
from ..run.log_cache import kept_in, log_in
from .before_start import giver_left
from .proposals import ReplyReading

_PAGE = 200


async def borrow_for_reply(drive: Drive, reading: ReplyReading) -> list[cm.BorrowGrant]:
    """Return what the calls of a reply borrow that are known to ask; each tool is named as the grants name it."""
    if drive.journal is None:  # nobody else's are known
        return []
    frame = reading.frame
    if others := reading.other_names():
        rows = [row async for page in _open_grants(drive, frame.agent) for row in page if not row.damaged]
        granted = {given.tool for given in map(_terms_of, rows) if given is not None}
        for place, names in others.items():
            if known := names & granted:
                reading.rename(place, min(known))
    asking = [
        Call(call_id(frame.id, frame.turn + 1, place), frame.id, frame.agent, reading.output[made.item], made)
        for place, made in enumerate(reading.proposals)
        if made.gate == "ask" and made.refused is None
    ]
    return await _borrow(drive, frame.agent, [(call, call.proposal.terms) for call in asking]) if asking else []


async def borrow_for_call(drive: Drive, call: Call, terms: Approval | None) -> list[cm.BorrowGrant]:
    """Return what a call borrows that was proposed and is about to ask on these terms."""
    return [] if call.voided or call.recheck else await _borrow(drive, call.agent, [(call, terms)])


async def _borrow(drive: Drive, agent: str, asking: Iterable[tuple[Call, Approval | None]]) -> list[cm.BorrowGrant]:
    journal = drive.journal
    reaches = list(reaches_of(drive.log.run, journal).values())
    needing = {call.id: (call, terms) for call, terms in asking if grant_for(drive.log.run, call, terms) is None}
    made = list[cm.BorrowGrant]()
    async with contextlib.aclosing(_open_grants(drive, agent)) as pages:
        while needing and (page := await anext(pages, None)) is not None:
            made += await _borrow_of(drive, page, reaches, needing)
    return made


async def _borrow_of(
    drive: Drive, page: Iterable[GrantRow], reaches: list[str], needing: dict[str, tuple[Call, Approval | None]]
) -> list[cm.BorrowGrant]:
    """Return what calls borrow of these grants; those that do need none any more."""
    made: list[cm.BorrowGrant] = []
    for row, call, terms in _promising(drive, page, needing):
        lent = await _lent(drive, row, reaches, call, terms)
        if lent is not None:
            made.append(lent)
            del needing[call.id]
    return made


async def _open_grants(drive: Drive, agent: str) -> AsyncGenerator[list[GrantRow]]:
    """Yield the rows of what was granted to an agent in other runs and may hold in this one, page by page."""
    journal: Any = drive.journal
    if not hasattr(journal, "grants"):  # none, or one that keeps no rows
        return
    reaches = tuple(reaches_of(drive.log.run, journal).values())
    query = Query(agent=agent, state="open", reaches=reaches, limit=_PAGE)
    while True:
        page: list[GrantRow] = await journal.grants(query)
        yield page
        if len(page) < _PAGE:
            return
        query = replace(query, after=(0, f"{page[-1].run}/{page[-1].id}"))


def _promising(
    drive: Drive, page: Iterable[GrantRow], needing: dict[str, tuple[Call, Approval | None]]
) -> Iterator[tuple[GrantRow, Call, Approval | None]]:
    """Yield each grant with each call that it covers, as its row tells; `needing` gets smaller meanwhile.

    A row is believed only where it says no: that costs a question to a person, and saves reading a log.
    """
    for row in page:
        given = None if row.damaged or row.run == drive.log.run.id else _terms_of(row)
        if given is None or (given.uses is not None and row.uses >= given.uses):
            continue
        for call, terms in list(needing.values()):
            if covers(drive.log.run, borrowed(given, call.id), call, terms):
                yield row, call, terms


def _terms_of(row: GrantRow) -> GrantTerms | None:
    try:
        return decode(row.body, type=GrantTerms)
    except MsgspecError:
        return None


async def _lent(
    drive: Drive, row: GrantRow, reaches: list[str], call: Call, terms: Approval | None
) -> cm.BorrowGrant | None:
    """Record at the home of a grant that a call uses it; None where its log does not say what its row does."""
    journal = drive.journal
    assert journal is not None
    try:
        log = await log_in(journal, row.run)
        grant = log.run.grants.get(row.id)
        if grant is None or not covers(drive.log.run, borrowed(grant, call.id), call, terms):
            return None
        if why := await giver_left(drive, grant.decider, [] if terms is None else [terms]):
            logger.warning("a grant of run %s is not used: %s", row.run, why)
            return None
        await write_to(journal, log, cm.LendGrant(grant.id, reaches, drive.log.run.id, call.id))
        kept_in(journal, log)
        if reaches != list(reaches_of(drive.log.run, journal).values()):  # the store was restored: what was lent is not
            return None
    except (NotPending, Conflict):  # it was revoked, used up or erased meanwhile
        return None
    except LogDamaged as error:
        logger.warning("a grant of run %s cannot be read and is not used: %s", row.run, error_words(error))
        return None
    return cm.BorrowGrant(borrowed(grant, call.id), row.run)
