"""Start a call for the caller outside that claims it, once everything was looked at that comes before any start."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from ...core import commands as cm
from ...core.errors import Conflict
from ...core.run import Call, Run, call_digest
from ...core.states import READY
from ..driving.drive import Drive
from .run_tool import start_with_question, undo_is_over


class Claiming(NamedTuple):
    """Holds which call is claimed, as the caller was shown it, by whom, and for how long, in milliseconds."""

    call: str
    digest: str
    by: str
    lasts: int


def claimable(run: Run, claiming: Claiming) -> bool:
    """Return whether a call may be claimed now: it was let run, and the newest policy was asked about it."""
    call = run.calls.get(claiming.call)
    return call is not None and call.state in READY and not call.recheck


async def claim_call(drive: Drive, call_id: str) -> None:
    """Record that the caller has the call; what is not as it was shown to that caller is not handed out."""
    claiming, drive.claiming = drive.claiming, None
    if claiming is None or not await undo_is_over(drive, call_id):
        return
    call: Call = drive.run.calls[call_id]
    if call_digest(drive.run, call) != claiming.digest:
        raise Conflict("this is not the call as you were shown it: look at the request again")
    checked = await start_with_question(drive, call, await drive.tool_of(call))
    if checked is None:
        return
    until = drive.clock() + claiming.lasts
    made = [replace(c, by=claiming.by, until=until) if isinstance(c, cm.StartCall) else c for c in checked[1]]
    await drive.commit(*made)
