"""Run one call: check it a last time, record the intent, call the tool, record the result.

Nothing touches a tool before `CallStarted` is recorded, and what started is never started again unless a person or
the tool's own declaration says so. A value that cannot be recorded is a failed result, never a lost one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from ...agents.context import ToolContext
from ...core import commands as cm
from ...core.digest import canonical
from ...core.empties import owned
from ...core.errors import Conflict
from ...core.events import Report
from ...core.gate.opening import Still, still
from ...core.items import Item, own_copy
from ...core.moves import asked_on
from ...core.preview import Json, Preview
from ...core.run import Call, undo_until
from ...core.states import READY
from ...support.threads import Place, place_of
from ...support.user_code import answer_of, as_user_error, class_name, contain, raised_by
from ...tools.base import (
    TOOL_CHANGED,
    TOOL_FAILED,
    Asking,
    Delegate,
    Handover,
    NeedsInput,
    OutcomeUnknown,
    Prepared,
    Tool,
    ToolProblem,
    not_blank,
)
from ...tools.known_digests import is_tool
from ..driving.drive import Drive, let_run_as
from ..driving.home import lives_elsewhere
from ..driving.lease import still_held
from ..facts.live_preview import CHANGED, changed_since, look, recorded
from ..facts.values import kept
from ..logger import error_words, logger
from ..run.frame_settings import FrameSettings
from ..states.context_data import context_now
from .around_tool import judged, rejected_by_input, tool_hooks
from .before_start import ANOTHER_TOOL, OUTGROWN, First, ask_anew, before_start, lapsed, outgrown, terms_of, unsigned
from .borrowing import borrow_for_call
from .handoff_view import filtered_view
from .nested_frames import open_frame
from .result_words import RecordedResult, item_of, worded
from .screening import outvoted
from .tool_errors import log_tool_error, without_secrets

#: What the model is told of a second handoff of one agent.
TWICE = "Multiple handoffs detected, ignoring this one."
_TOO_EARLY = "This call hands the conversation over, and others made beside it have no result yet: make it alone."
#: The label of what a tool said of its call when it asked for approval or for a result.
SAID = "metadata"


# In seconds, how often it is looked whether an approval that can be undone was.
_LOOK_AGAIN = 0.25
# Values of these types are the same when they are read from a log; those in a dict or a list are as JSON has them.
_JSON = (str, bool, int, float, dict, list)


async def run_tool(drive: Drive, call_id: str) -> None:
    """Run a call that may run."""
    call = drive.log.run.calls[call_id]
    begun = drive.begun.pop(call_id, None)
    if begun is not None:  # its start was recorded in a fused step
        with begun.place:
            tool, scope = await drive.tool_of(call), drive.scope(call.frame)
            if call.state == "started" and call.asks == begun.asks:  # else they ask what became of it
                await _invoke(drive, scope, call, tool, drive.tool_context(call, tool), begun.place)
        return
    if call.decision is not None and not await undo_is_over(drive, call_id):
        return
    call = drive.log.run.calls[call_id]
    if await lives_elsewhere(drive.journal, drive.home, call):
        drive.stops.add("elsewhere")
        drive.leave()
        return
    tool, scope = await drive.tool_of(call), drive.scope(call.frame)
    stands = still(call)
    first = before_start(drive, scope, call, tool)
    context = drive.tool_context(call, tool)
    reports = await _first_looks(drive, scope, call, tool, context, first, stands)
    if reports is None:
        return
    if not first:
        with await place_of(tool.blocking) as place:
            await drive.commit(stands, drive.start_of(call, call.proposal.tool))
            await _invoke(drive, scope, call, tool, context, place)
        return
    async with scope.slot(tool.blocking) as place:
        with place.kept():
            ready = await _last_looks(drive, scope, call, tool, context, stands)
        if ready:
            context.__dict__.update(let_run_as(call))  # hooks may have edited theirs
            await drive.commit(stands, drive.start_of(call, call.proposal.tool, reports))
            await _invoke(drive, scope, call, tool, context, place)


async def undo_is_over(drive: Drive, call_id: str) -> bool:
    """Wait while the approval of a call can be undone; return whether the call may run still."""
    while (call := drive.log.run.calls.get(call_id)) is not None and call.state in READY and not call.recheck:
        left = (undo_until(call) or 0) - max(drive.log.run.now, drive.clock())
        if left <= 0:
            return True
        if "leaving" in drive.stops:
            return False
        await asyncio.sleep(min(left / 1_000, _LOOK_AGAIN))
    return False


async def start_with_question(
    drive: Drive, call: Call, tool: Tool
) -> tuple[ToolContext[Any], list[cm.RunCommand]] | None:
    """Check a call that the provider runs a last time; return its context and the commands that start it.

    None where it does not start: then it asks anew, or has its result.
    """
    stands = still(call)
    scope, context = drive.scope(call.frame), drive.tool_context(call, tool)
    first = before_start(drive, scope, call, tool)
    reports = await _first_looks(drive, scope, call, tool, context, first, stands)
    if reports is None or not await _last_looks(drive, scope, call, tool, context, stands):
        return None
    return context, [stands, drive.start_of(call, call.proposal.tool, reports)]


async def _first_looks(
    drive: Drive,
    scope: FrameSettings,
    call: Call,
    tool: Tool,
    context: ToolContext[Any],
    first: Sequence[First],
    stands: Still,
) -> list[Report] | None:
    """Return what input guardrails said of a call; None where it asks anew, or one of them rejected it."""
    if why := await _why_anew(drive, scope, call, tool, first):
        await ask_anew(drive, scope, call, tool, why, stands=stands)
        return None
    if "guardrails" not in first:
        return []
    reports, message = await rejected_by_input(drive, call, tool, context)
    if message is None:
        return reports
    item = item_of(call, tool, RecordedResult(message), ran=False)
    await drive.commit(stands, cm.FinishCall(call.id, item, failed=True, reports=reports))
    return None


async def _why_anew(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, first: Sequence[First]) -> str:
    """Return why what lets a call run does not any more; "" where it does."""
    if "tool" in first:
        return ANOTHER_TOOL
    if "terms" in first:
        return OUTGROWN
    if "verdict" in first and (why := await outvoted(drive, scope, call, tool)):
        return why
    if "proof" in first and (why := await unsigned(drive, call, terms_of(call, tool))):
        return why
    return await lapsed(drive, call, terms_of(call, tool)) if "grant" in first else ""


async def _last_looks(
    drive: Drive,
    scope: FrameSettings,
    call: Call,
    tool: Tool,
    context: ToolContext[Any],
    stands: Still,
) -> bool:
    """Check a call once more, now that others had their word; return whether it may start, else it asks anew."""
    changed = await changed_since(tool, call)
    if changed is not None:
        await ask_anew(drive, scope, call, tool, CHANGED, changed, stands)
        return False
    await tool_hooks(scope, context, "on_tool_start", tool)
    why = ""
    if not is_tool(tool, call.raw, call.proposal.tool):  # it changed while others had their word
        why = ANOTHER_TOOL
    elif outgrown(drive.log.run, call, tool):
        why = OUTGROWN
    else:  # the policy may have changed, a key may have been revoked, or a person may have left
        terms = terms_of(call, tool)
        why = await outvoted(drive, scope, call, tool)
        why = why or await unsigned(drive, call, terms) or await lapsed(drive, call, terms)
    if why:
        await ask_anew(drive, scope, call, tool, why, stands=stands)
    return not why


async def _invoke(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, context: object, place: Place) -> None:
    call = drive.log.run.calls.get(call.id, call)  # as it was started: the run may have been folded anew since
    fatal: Exception | None = None
    raised: Exception | None = None
    await still_held(drive)  # a process that stood still may have lost the run, and others say what becomes of the call
    try:
        if not is_tool(tool, call.raw, call.proposal.tool):  # it changed while the call stood in a hook, say
            raise ToolProblem(TOOL_CHANGED)
        try:
            with place.given():
                value = await tool.invoke(context, Prepared(call.text))
        except BaseException as error:
            contain(error)
            raise
    except Asking as asking:
        value = asking.needs
    except OutcomeUnknown as unknown:
        # Not again by itself: what did not end here would not end here the next time, and the time after that.
        await drive.commit(cm.LoseCall(call.id, without_secrets(call, str(unknown)), again=False))
        return
    except Exception as error:  # a tool may raise anything, and the run outlives it
        log_tool_error(drive.log.run.id, call, tool, error)  # it takes the secrets out of the words that are traced
        if drive.traces is not None:
            drive.traces.raised(call.id, error)
        raised = error
        value, fatal = await _told(scope, call, tool, (context, error))
    if isinstance(value, Delegate):
        await open_frame(drive, call, value)
        return
    if isinstance(value, NeedsInput):
        await _wait_for_input(drive, call, tool, value)
        return
    if isinstance(value, Handover):
        await _hand_over(drive, scope, call, tool, value)
        return
    result = await judged(drive, call, tool, value, context)
    await _finish(drive, call, tool, result, failed=raised is not None)
    if raised is not None:
        await tool_hooks(scope, context, "on_tool_error", tool, raised)
    if fatal is not None or result.tripwire is not None:
        raise (fatal or result.tripwire)  # type: ignore[misc]  # one of the two is an exception
    await tool_hooks(scope, context, "on_tool_end", tool, result.value)


async def _wait_for_input(drive: Drive, call: Call, tool: Tool, value: NeedsInput) -> None:
    """Record what a tool asks, so that its call goes on when somebody has answered."""
    try:
        canonical([value.requests, value.state])
        shown = await _shown(call, tool, value)
    except Exception as error:
        logger.warning(
            "the input that %r requires could not be recorded and is not requested: %s", tool.name, error_words(error)
        )
        text = f"The tool asked for an answer that could not be recorded ({type(error).__name__})."
        await _finish(drive, call, tool, RecordedResult(text), failed=True)
        return
    state = await drive.home.hold(value.state) if value.here and drive.home is not None else value.state
    standing = value.wants == "approval" and call.approval is None
    grants = await borrow_for_call(drive, call, asked_on(call)) if standing else []
    await drive.commit(*grants, cm.NeedInput(call.id, value.requests, state, shown, value.wants))


async def _shown(call: Call, tool: Tool, value: NeedsInput) -> Preview | None:
    """Return what people are shown: of a question the question, else what the call would do and what its tool said."""
    if value.preview is not None:
        return recorded(not_blank(value.preview, value.requests))
    if value.wants == "answer":
        return None
    made = await look(tool, call)
    said = (Json(own_copy(value.requests), SAID),) if value.requests else ()
    return recorded(msgspec.structs.replace(made, blocks=(*made.blocks, *said)))


async def _told(
    scope: FrameSettings, call: Call, tool: Tool, raised: tuple[Any, Exception]
) -> tuple[Any, Exception | None]:
    """Return what the model is told of an error, and the error itself where it stops the run."""
    context, error = raised
    try:
        text = await answer_of(tool.failure, context, error)
        if text == TOOL_FAILED:  # the tool has no words of its own
            text = await worded(scope, "tool_exception", call.proposal, text, error)
        return text, None
    except Exception as fatal:  # the tool's own setting says that its errors stop the run
        return TOOL_FAILED, as_user_error(fatal, f"tool {tool.name!r}")


async def _finish(drive: Drive, call: Call, tool: Tool, result: RecordedResult, *, failed: bool) -> None:
    try:
        try:  # a value of the user's writes itself
            item = item_of(call, tool, result)
            own = kept(result.value)
            _check_recordable(item)
        except BaseException as error:
            contain(error)
            raise
    except Exception as error:  # what cannot be recorded is told, not lost: the effect has happened
        logger.warning("%r ran, and its result is lost, it could not be recorded: %s", tool.name, error_words(error))
        text = f"The tool ran, but its result could not be recorded ({class_name(error)})."
        item = item_of(call, tool, RecordedResult(text))
        own = None
        failed = True
    drive.live.objects.pop(call.id, None)
    if not failed and type(result.value) not in _JSON:
        owned(drive.live, "objects")[call.id] = item, result.value
    saved = context_now(drive.live) if tool.keeps_context else []
    await drive.commit(cm.FinishCall(call.id, item, own, failed, list(result.reports)), *saved)


def _check_recordable(item: Item) -> None:
    """Raise unless a log gives the item back as it is."""
    if isinstance(item.get("output"), str):
        msgspec.json.encode(item)
    else:
        canonical(item)


def _beside_others(drive: Drive, call: Call) -> bool:
    """Return whether calls of the same reply have no result yet, as where a tool hands over that is no handoff."""
    frame = drive.log.run.frames[call.frame]
    return frame.barrier and frame.open != 1


async def _hand_over(drive: Drive, scope: FrameSettings, call: Call, tool: Tool, value: Handover) -> None:
    source = drive.graph.agent_at[call.agent]
    if drive.log.run.frames[call.frame].agent != call.agent:  # where no call waits for its siblings
        await _finish(drive, call, tool, RecordedResult(TWICE), failed=True)
        return
    if _beside_others(drive, call):
        await _finish(drive, call, tool, RecordedResult(_TOO_EARLY), failed=True)
        return
    result = await judged(drive, call, tool, value.text)
    item = item_of(call, tool, result)
    input_filter = value.input_filter or scope.config.handoff_input_filter
    filtered = input_filter is not None and drive.log.run.frames[call.frame].barrier  # else the provider has it all
    view = await filtered_view(drive, call, item, input_filter) if filtered else None
    path = drive.live.graph.path(value.agent, call.agent)
    with raised_by("on_handoff of the hooks"):
        if scope.hooks is not None:
            await scope.hooks.on_handoff(scope.context, from_agent=source, to_agent=value.agent)
        if source.hooks is not None:
            await source.hooks.on_handoff(scope.context, agent=value.agent, source=source)
    try:
        await drive.commit(cm.HandOff(call.id, item, path, view, list(result.reports)))
    except Conflict:
        if drive.log.run.frames[call.frame].agent == call.agent:
            raise
        await _finish(drive, call, tool, RecordedResult(TWICE), failed=True)
        return
    if result.tripwire is not None:
        raise result.tripwire
