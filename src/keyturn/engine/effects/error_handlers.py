"""Call error handlers: a caller's function that answers in place of an error, for the root only.

Their answer is an answer like any other: guardrails see it, hooks are told, the session gets it.
"""

from __future__ import annotations

from typing import Any

from ...agents.settings import RunErrorData, RunErrorHandlerInput, handled
from ...core import commands as cm
from ...core import events as ev
from ...core.items import Item
from ..driving.drive import Drive
from ..run.facts import jsonable
from .conclude import concluded


async def answered(drive: Drive, frame_id: str, kind: str, error: Any) -> None:
    """Close the run with what the handler of this kind of error answers, or raise the error."""
    frame, scope = drive.run.frames[frame_id], await drive.enter(frame_id)
    if frame_id != ev.ROOT or kind not in (scope.error_handlers or {}):
        raise error
    data = RunErrorHandlerInput(error=error, context=scope.context, run_data=_data(drive.result()))
    answer = await handled(scope.error_handlers, kind, data)
    if answer is None:
        raise error
    value = answer.final_output
    reports = await concluded(drive, frame, scope, drive.agent(frame.agent), value)
    if not any(report.tripped for report in reports):
        drive.live.finals[frame_id] = value
    said = [_message(value)] if answer.include_in_history else []
    await drive.commit(cm.CloseRun(jsonable(value), said, reports))


def _data(result: Any) -> RunErrorData:
    new = result.new_items
    history, output = result.to_input_list(), [item.to_input_item() for item in new if item.raw_item is not None]
    return RunErrorData(result.input, new, history, output, result.raw_responses, result.last_agent)


def _message(value: Any) -> Item:
    text = value if isinstance(value, str) else str(value)
    part: Item = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]}
