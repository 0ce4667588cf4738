"""Run a call that the provider makes itself, of a model that is talked to: with its approval on the connection.

It is started right before its approval is sent, and finished with what the provider reports of it. Where the connection
ends before, it is in doubt. An approval that no connection can be sent lets nothing run, and the model is told so.
"""

from __future__ import annotations

from ...core import commands as cm
from ...core.gate.opening import still
from ...core.run import Call
from ...tools.base import OutcomeUnknown, Prepared, Tool
from ..driving.drive import Drive
from ..driving.lease import still_held
from ..driving.provider_line import NO_LINE, NotSent
from .result_words import RecordedResult, item_of
from .run_tool import Objection, run_tool, start_with_question

_UNSENT = "the connection ended before its approval was sent, and the provider ran nothing"


async def run_call(drive: Drive, call_id: str, objection: Objection) -> None:
    """Run a call that may run, here or by its provider."""
    call = drive.run.calls[call_id]
    if call.proposal.by_provider:
        await _run_by_provider(drive, call, await drive.tool_of(call), objection)
    else:
        await run_tool(drive, call_id, objection)


async def _run_by_provider(drive: Drive, call: Call, tool: Tool, objection: Objection) -> None:
    stands, line = still(call), drive.provider
    refusal = NO_LINE if line is None else await line.refusal(call)
    if line is None or refusal:
        item = item_of(call, tool, RecordedResult(refusal), ran=False)
        await drive.commit(stands, cm.FinishCall(call.id, item, failed=True))
        return
    checked = await start_with_question(drive, call, tool, objection)
    if checked is None:
        return
    context, start = checked
    await drive.commit(*start)
    item = item_of(call, tool, RecordedResult(await tool.invoke(context, Prepared(call.text))))
    await still_held(drive)  # a process that stood still may have lost the run, and others say what becomes of the call
    try:
        await line.approve(call, item)
    except NotSent:
        await drive.commit(cm.LoseCall(call.id, _UNSENT, again=False, unsent=True))
    except OutcomeUnknown as unknown:
        await drive.commit(cm.LoseCall(call.id, str(unknown), again=False))
    else:
        await drive.commit(cm.FinishCall(call.id, item))
