"""Record the result of a call that does not run: rejected, denied, expired, answered, or resolved after a doubt."""

from __future__ import annotations

from typing import Any

from ...core import commands as cm
from ...core.errors import ToolSourceDown
from ...core.gate.opening import still
from ...core.run import Call
from ...tools.base import Tool
from ..driving.drive import Drive
from ..facts.values import jsonable
from .around_tool import judged
from .before_start import outgrown, terms_of, unsigned
from .result_words import RecordedResult, item_of, worded
from .screening import stands

_NOT_APPROVED = "Tool execution was not approved."
#: What the model reads in place of a result where an approver asks it a question; the question follows.
ASKED_BACK = (
    "Not run: a person asks a question before they decide. Answer it, and propose the call again if it is still "
    "needed. The question: "
)
_DEFAULT = {
    "rejected": _NOT_APPROVED,
    "expired": "Tool execution was not approved in time.",
    "ran": "The tool ran; its output was lost.",
    "did_not_run": "The tool did not run.",
}


_SAID = ("answered", "ran", "did_not_run")


async def settle(drive: Drive, call_id: str) -> None:
    """Give a call that will not run its result; one that was given in its tool's place is judged as the tool's own."""
    call = drive.run.calls[call_id]
    stands = still(call)
    tool = await drive.shown_tool(call) or await _found(drive, call)
    unheard = await _unheard(drive, call, tool)
    if unheard:
        result = RecordedResult(unheard)
    elif (given := _output(call)) is not None:
        result = await judged(drive, call, tool, given)
    else:
        result = RecordedResult(await _words(drive, call))
    item = item_of(call, tool, result, ran=call.state == "ran" or (call.state == "answered" and call.begun))
    own = None if isinstance(result.value, str) else jsonable(result.value)
    await drive.commit(stands, cm.FinishCall(call_id, item, own, bool(unheard), list(result.reports)))
    if result.tripwire is not None:
        raise result.tripwire


async def _unheard(drive: Drive, call: Call, tool: Tool | None) -> str:
    """Return what the model is told of a person's own result that does not count: unsigned, or on outdated terms."""
    decision = call.decision
    if call.state not in _SAID or decision is None or decision.via != "person":
        return ""
    if call.state == "answered" and not call.begun and tool is not None:
        if outgrown(drive.run, call, tool):
            return "A result given in place of the tool's does not meet the current terms of the tool; it is not valid."
        if not await stands(drive, call, tool):
            return "A result given in place of the tool's is not allowed by the current policy; it is not valid."
    why = await unsigned(drive, call, terms_of(call, tool))
    return why and "A result given in place of the tool's lacks a required signature; it is not valid."


async def _found(drive: Drive, call: Call) -> Tool | None:
    """Return the tool as its agent has it now; a server that is down is not needed for the result of no run."""
    try:
        return await drive.find_tool(call)
    except ToolSourceDown:
        return None


def _output(call: Call) -> Any:
    """Return the result that was given for a call, None where none was."""
    decision = call.decision
    return decision.output if decision is not None and call.state in ("answered", "ran") else None


async def _words(drive: Drive, call: Call) -> str:
    """Return what the model is told of a call that has no result."""
    decision = call.decision
    if call.state == "denied":
        return call.reason or "Tool execution was denied."
    if decision is not None and decision.message is not None:
        return ASKED_BACK + decision.message if decision.asks_back else decision.message
    default = _DEFAULT.get(call.state, "")
    if call.state in ("rejected", "expired"):
        return await worded(drive.scope(call.frame), "approval_rejected", call.proposal, default)
    return default
