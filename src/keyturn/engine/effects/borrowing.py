"""Borrow the standing decisions of other runs for calls that would ask.

Only a call that is about to ask borrows, and only before it does: what waits already is decided by people. Each use is
recorded in the log of the run that gave the grant before the call goes on, and that log is verified as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core import commands as cm
from ...core.call_ids import call_id
from ...core.errors import Conflict, LogDamaged, NotPending
from ...core.gate import covers, grant_for
from ...core.items import Item
from ...core.lending import borrowed
from ...core.policy import Approval
from ...core.records import Proposal
from ...core.run import Call, Frame
from ...journal.rows import GrantRow, Query
from ..driving.drive import Drive
from ..driving.writer import Writer
from ..facts.reaches import reaches_of
from ..logger import error_words, logger
from ..run.log_cache import kept_in, log_in
from ..run.open_run import journal_clock
from ..views.rows import known_open

_MOST = 100  # of the grants that could be meant, the newest are looked at


async def borrow_for_reply(
    drive: Drive, frame: Frame, output: Sequence[Item], proposals: Sequence[Proposal]
) -> list[cm.BorrowGrant]:
    """Return what the calls of a reply borrow that are known to ask."""
    asking = [
        Call(call_id(frame.id, frame.turn + 1, place), frame.id, frame.agent, output[made.item], made)
        for place, made in enumerate(proposals)
        if made.gate == "ask" and made.refused is None
    ]
    return await _borrow(drive, frame.agent, [(call, call.proposal.terms) for call in asking]) if asking else []


async def borrow_for_call(drive: Drive, call: Call, terms: Approval | None) -> list[cm.BorrowGrant]:
    """Return what a call borrows that was proposed and is about to ask on these terms."""
    return [] if call.voided or call.recheck else await _borrow(drive, call.agent, [(call, terms)])


async def _borrow(drive: Drive, agent: str, asking: Iterable[tuple[Call, Approval | None]]) -> list[cm.BorrowGrant]:
    journal: Any = drive.journal
    if not hasattr(journal, "grants"):  # none, or one that keeps no rows
        return []
    reaches = reaches_of(drive.run, journal)
    rows = await journal.grants(
        Query(agent=agent, state="open", reaches=tuple(reaches.values()), limit=_MOST, newest=True)
    )
    others = [row for row in rows if row.run != drive.run.id and not row.damaged]
    if not others:
        return []
    needing = [(call, terms) for call, terms in asking if grant_for(drive.run, call, terms) is None]
    made = [await _lent(drive, others, list(reaches.values()), call, terms) for call, terms in needing]
    return [command for command in made if command is not None]


async def _lent(
    drive: Drive, rows: Iterable[GrantRow], reaches: list[str], call: Call, terms: Approval | None
) -> cm.BorrowGrant | None:
    """Take the first grant that covers a call, and record at its home that it was used."""
    journal = drive.journal
    assert journal is not None
    for row in rows:
        try:
            log = await log_in(journal, row.run)
            grant = log.run.grants.get(row.id)
            if grant is None or not covers(drive.run, borrowed(grant, call.id), call, terms):
                continue
            writer = Writer(log, journal, await journal_clock(journal))
            writer.open = known_open(log.run)
            await writer.commit(cm.LendGrant(grant.id, reaches, drive.run.id, call.id))
            kept_in(journal, log)
        except (NotPending, Conflict):  # it was revoked, used up or erased meanwhile
            continue
        except LogDamaged as error:
            logger.warning("a grant of run %s cannot be read and is not used: %s", row.run, error_words(error))
            continue
        return cm.BorrowGrant(borrowed(grant, call.id), row.run)
    return None
