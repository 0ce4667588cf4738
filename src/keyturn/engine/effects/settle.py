"""Record the result of a call that does not run: rejected, denied, expired, answered, or resolved after a doubt."""

from __future__ import annotations

from typing import Any

from ...core import commands as cm
from ...core.errors import ToolSourceDown
from ...core.items import Item
from ...core.run import Call
from ...sessions.history import superseded_output
from ...tools.base import Tool
from ..driving.drive import Drive
from ..facts.values import jsonable
from .before_start import terms_of, unsigned
from .result_words import told_of_edit, worded

_NOT_APPROVED = "Tool execution was not approved."
_ASKED_BACK = (
    "Not run: a person asks a question before they decide. Answer it, and propose the call again if it is still "
    "needed. The question: "
)
_WORDS = {
    "rejected": _NOT_APPROVED,
    "expired": "Tool execution was not approved in time.",
    "ran": "The tool ran; its output was lost.",
    "did_not_run": "The tool did not run.",
}


_SAID = ("answered", "ran", "did_not_run")


async def settle(drive: Drive, call_id: str) -> None:
    """Give a call that will not run its result."""
    call = drive.run.calls[call_id]
    tool = await drive.shown_tool(call) or await _found(drive, call)
    unheard = await _unheard(drive, call, tool)
    value = unheard or await _value(drive, call)
    item: Item = tool.output(call.raw, value) if tool is not None else _plain(call, value)
    if call.state == "ran" or (call.state == "answered" and call.begun):
        item = told_of_edit(call, tool, item)
    own = None if isinstance(value, str) else jsonable(value)
    await drive.commit(cm.FinishCall(call_id, item, own, failed=bool(unheard)))


async def _unheard(drive: Drive, call: Call, tool: Tool | None) -> str:
    """Return what the model is told where a person's own result had to be signed and is not; "" where it counts."""
    decision = call.decision
    if call.state not in _SAID or decision is None or decision.via != "person":
        return ""
    why = await unsigned(drive, call, terms_of(call, tool))
    return why and "A result was given in the tool's place that is not signed as it must be; it does not count."


async def _found(drive: Drive, call: Call) -> Tool | None:
    """Return the tool as its agent has it now; a server that is down is not needed for the result of no run."""
    try:
        return await drive.find_tool(call)
    except ToolSourceDown:
        return None


async def _value(drive: Drive, call: Call) -> Any:
    decision = call.decision
    if call.state in ("answered", "ran") and decision is not None and decision.output is not None:
        return decision.output
    if call.state == "denied":
        return call.reason or "Tool execution was denied."
    if decision is not None and decision.message is not None:
        return _ASKED_BACK + decision.message if decision.asks_back else decision.message
    default = _WORDS.get(call.state, "")
    if call.state in ("rejected", "expired"):
        return await worded(drive.scope(call.frame), "approval_rejected", call.proposal, default)
    return default


def _plain(call: Call, value: Any) -> Item:
    """Return the result of a call whose tool is gone: nothing ran, so the text needs no tool."""
    return superseded_output(call.raw, str(value))
