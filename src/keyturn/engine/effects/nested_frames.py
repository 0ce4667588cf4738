"""Run a nested agent in the same run: in a frame whose id is the id of the call that it answers.

The frame opens when the agent tool is called. When it closes, its answer or its error becomes that call's result.
"""

from __future__ import annotations

from ...core import commands as cm
from ...core.events import Report
from ...core.items import input_items, own_copy
from ...core.run import Call
from ...tools.base import Delegate
from ...user_code import answer_of, class_name, raised_by
from ..driving.drive import Drive
from ..facts.values import jsonable
from ..logger import error_words, logger
from ..run.frame_settings import FrameSettings
from ..session.owner import own_given
from ..session.sync import opening, save_session
from .around_tool import judged, tool_hooks
from .input_guardrails import guarded, input_guardrails
from .result_words import item_of
from .tool_errors import keep_words, log_tool_error


async def open_frame(drive: Drive, call: Call, delegate: Delegate) -> None:
    """Record that a nested agent answers for a started call."""
    inner = await drive.enter(call.id)
    inner.context.turn_input = own_copy(input_items(delegate.input))
    path = drive.live.graph.path(delegate.agent, call.agent)
    await own_given(drive.live.journal, inner.session, drive.run.requester, {})
    items, prefix = await opening(drive, call.id, inner, input_items(delegate.input))
    await drive.commit(
        cm.OpenFrame(
            call.id,
            path,
            items,
            delegate.max_turns,
            guarded(input_guardrails(delegate.agent, inner)),
            prefix,
            inner.nested.previous_response_id,
        )
    )


async def answer_caller(
    drive: Drive, frame_id: str, scope: FrameSettings, answer: object, reports: list[Report]
) -> None:
    """Close a nested frame with its answer as the result of the call that opened it."""
    call = drive.run.calls[frame_id]
    tool = scope.tool
    value = answer
    extractor = scope.nested.custom_output_extractor
    if extractor is not None:
        value = await answer_of(extractor, drive.result(frame_id, answer))
    if frame_id in drive.feeds:
        await drive.feeds[frame_id].drained()
    context = drive.tool_context(call, tool)
    result = await judged(drive, call, tool, value, context)
    output = jsonable(result.value if result.withheld else answer)
    item = item_of(call, tool, result)
    await drive.commit(cm.JudgeFrame(frame_id, True, output, item, reports, list(result.reports)))
    if result.tripwire is not None:
        raise result.tripwire
    try:
        await tool_hooks(drive.scope(call.frame), context, "on_tool_end", tool, result.value)
    except Exception as error:
        keep_words(call, error)
        raise


async def close_failed(drive: Drive, frame_id: str, error: Exception) -> None:
    """Close a nested frame that an error ended, with the error as the result of the call that opened it."""
    call = drive.run.calls.get(frame_id)
    if call is None or frame_id not in drive.run.frames:
        return
    try:
        await _close_failed(drive, call, error)
    except Exception as fatal:
        keep_words(call, fatal)
        raise


async def _close_failed(drive: Drive, call: Call, error: Exception) -> None:
    frame_id = call.id
    scope = await drive.enter(frame_id)
    context = drive.tool_context(call, scope.tool)
    log_tool_error(drive.run.id, call, scope.tool, error)
    with raised_by(f"tool {scope.tool.name!r}"):
        text = await scope.tool.failure(context, error)
    result = await judged(drive, call, scope.tool, text, context)
    item = item_of(call, scope.tool, result)
    try:
        await save_session(drive, frame_id)
    except Exception as other:  # what went wrong is told already; the frame ends in any case
        logger.warning("the session of nested agent %s lacks its last items: %s", frame_id, error_words(other))
    await drive.commit(cm.CloseFrame(frame_id, class_name(error), item, list(result.reports)))
    outer = drive.scope(call.frame)
    await tool_hooks(outer, context, "on_tool_error", scope.tool, error)
    if result.tripwire is not None:
        raise result.tripwire
    await tool_hooks(outer, context, "on_tool_end", scope.tool, result.value)
