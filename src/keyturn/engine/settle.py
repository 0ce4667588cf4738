"""The result of a call that does not run: rejected, denied, expired, answered, or resolved after a doubt."""

from __future__ import annotations

import inspect
from typing import Any

from ..agents.settings import ToolErrorFormatterArgs
from ..core import commands as cm
from ..core.items import Item
from ..core.run import Call
from .drive import Drive
from .facts import jsonable
from .telling import told_of_edit

_NOT_APPROVED = "Tool execution was not approved."
_WORDS = {
    "rejected": _NOT_APPROVED,
    "expired": "Tool execution was not approved in time.",
    "ran": "The tool ran; its output was lost.",
    "did_not_run": "The tool did not run.",
}


async def settle(drive: Drive, call_id: str) -> None:
    """Give a call that will not run its result."""
    call = drive.run.calls[call_id]
    tool = await drive.find_tool(call)
    value = await _value(drive, call)
    item: Item = tool.output(call.raw, value) if tool is not None else _plain(call, value)
    if call.state == "ran":
        item = told_of_edit(call, item)
    await drive.commit(cm.FinishCall(call_id, item, None if isinstance(value, str) else jsonable(value)))


async def _value(drive: Drive, call: Call) -> Any:
    decision = call.decision
    if call.state in ("answered", "ran") and decision is not None and decision.output is not None:
        return decision.output
    if call.state == "denied":
        return call.reason or "Tool execution was denied."
    if decision is not None and decision.message is not None:
        return decision.message
    default = _WORDS.get(call.state, "")
    return await _formatted(drive, call, default) if call.state in ("rejected", "expired") else default


async def _formatted(drive: Drive, call: Call, default: str) -> str:
    scope = drive.scope(call.frame)
    formatter: Any = scope.config.tool_error_formatter
    if formatter is None:
        return default
    args = ToolErrorFormatterArgs(
        kind="approval_rejected",
        tool_type=call.proposal.kind,
        tool_name=call.proposal.name,
        call_id=call.proposal.label,
        default_message=default,
        run_context=scope.context,
    )
    answer = formatter(args)
    answer = await answer if inspect.isawaitable(answer) else answer
    return answer if isinstance(answer, str) else default


def _plain(call: Call, value: Any) -> Item:
    """The result of a call whose tool is gone: nothing ran, so its words need no tool."""
    kind = call.raw.get("type", "function_call")
    return {"type": f"{kind}_output", "call_id": call.proposal.label, "output": str(value)}
