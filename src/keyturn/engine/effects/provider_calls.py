"""Start the calls that a provider runs with what holds their approval, and end them with what it says of them.

The provider runs such a call while it answers the question that holds its approval, and says so in its reply only. So
the call is started just before the question is sent, and has its result in the step that records the reply. Where no
reply came it is in doubt, unless the provider refused the question as a whole: then nothing ran, and it may start
again. A model that is talked to is sent the approval on its connection, and says there what came of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...agents.context import ToolContext
from ...core import commands as cm
from ...core.effects import sent_along
from ...core.errors import Conflict, ModelBehaviorError, StorageError, UserError
from ...core.gate.opening import Outdated, still
from ...core.items import Item, own_copies
from ...core.run import Call, Frame
from ...models.base import not_begun
from ...tools.base import TOOL_CHANGED, OutcomeUnknown, Prepared, Tool
from ...tools.known_digests import is_tool
from ..driving.drive import Drive
from ..driving.lease import still_held
from ..driving.provider_line import NO_LINE, NotSent
from ..logger import error_words, logger
from ..run.frame_settings import FrameSettings, Toolset
from .judge import answer_of_tools, unsent
from .result_words import RecordedResult, item_of
from .run_tool import start_with_question

_UNKNOWN = "the question that held its approval failed ({}), and the provider may have run it"
_UNSENT = "the connection ended before its approval was sent, and the provider ran nothing"
_REFUSED = "the provider refused the question that held its approval, and ran nothing"


class _Checked(NamedTuple):
    """Holds a call that may start, its tool, and the commands that start it."""

    call: Call
    tool: Tool
    context: ToolContext[Any]
    start: list[cm.RunCommand]


class ProviderCalls:
    """Holds the calls that one question lets the provider run; without any it does nothing."""

    def __init__(self, drive: Drive, frame: Frame, checked: Sequence[_Checked] = ()) -> None:
        self._drive, self._frame = drive, frame
        self._checked = checked
        self._sent = False
        #: Whether the model's reply came: what fails after it is no failure of the question.
        self.replied = False
        self._results: list[cm.RunCommand] = []

    def __bool__(self) -> bool:
        return bool(self._checked)

    def items(self) -> list[Item]:
        """Return what the question holds behind the conversation: the results of the reply, and later messages."""
        if not self._checked:
            return []
        run, frame = self._drive.run, self._drive.run.frames[self._frame.id]
        calls = (run.calls[name] for name in frame.calls)
        settled = [call.item or self._go_ahead(call) for call in calls]
        return own_copies([*(item for item in settled if item is not None), *frame.queued])

    def _go_ahead(self, call: Call) -> Item | None:
        for each in self._checked:
            make = type(each.tool).go_ahead
            if each.call.id == call.id and make is not None:
                return make(call.raw)
        return None

    async def start(self, sent: Sequence[Any], toolset: Toolset) -> None:
        """Record the start of the calls; `sent` is the conversation, `toolset` the tools that are about to be sent."""
        if not self._checked:
            return
        self._check_sent(toolset)
        for each in self._checked:
            if self._go_ahead(each.call) not in sent:
                raise UserError(
                    f"call_model_input_filter left out the approval of {each.call.proposal.name!r}: keep it"
                )
        await self._drive.commit(*(command for each in self._checked for command in each.start))
        self._check_sent(toolset)
        for each in self._checked:
            value = await each.tool.invoke(each.context, Prepared(each.call.text))
            self._results.append(cm.FinishCall(each.call.id, item_of(each.call, each.tool, RecordedResult(value))))
        self._sent = True

    def _check_sent(self, toolset: Toolset) -> None:
        """Raise unless the tools that are sent are those that were checked; the calls are looked at again then."""
        for each in self._checked:
            tool = toolset.find(each.call.raw)
            if tool is None or not is_tool(tool, each.call.raw, each.call.proposal.tool):
                raise Outdated(TOOL_CHANGED)

    def results(self) -> list[cm.RunCommand]:
        """Return the commands that end the calls, to be recorded with the reply."""
        judged = bool(self._checked) and self._drive.run.frames[self._frame.id].judged
        return [*self._results, *([cm.JudgeFrame(self._frame.id, final=False)] if judged else [])]

    async def failed(self, error: Exception) -> bool:
        """Record what a failure of the question means for its calls; return whether a person is asked about them.

        The run waits for that person then. Other errors are the run's.
        """
        calls = self._drive.run.calls
        begun = [name for each in self._checked if (name := each.call.id) in calls and calls[name].state == "started"]
        if not begun or isinstance(error, StorageError):  # nobody knows what a store holds that failed
            return False
        nothing_ran = not (self._sent or isinstance(error, OutcomeUnknown))
        nothing_ran = nothing_ran or (not self.replied and not_begun(error))
        why = _REFUSED if nothing_ran else _UNKNOWN.format(type(error).__name__)
        if isinstance(error, OutcomeUnknown):
            why = str(error)
        try:
            await self._drive.commit(*(cm.LoseCall(name, why, again=False, unsent=nothing_ran) for name in begun))
        except Conflict:  # the run is over, or another process has it: whoever has it says what became of them
            return False
        if isinstance(error, OutcomeUnknown):
            return True
        if nothing_ran or isinstance(error, Conflict) or (self.replied and not isinstance(error, ModelBehaviorError)):
            return False
        logger.warning("a person must resolve %d calls: %s", len(begun), error_words(error))
        return True


async def checked_calls(drive: Drive, frame: Frame, scope: FrameSettings) -> ProviderCalls | None:
    """Check the calls that the next question is to hold; None where that question is not to be asked now."""
    calls = sent_along(drive.run, frame)
    if frame.phase != "calls":
        return ProviderCalls(drive, frame)
    settled = [call for name in frame.calls if (call := drive.run.calls[name]).item is not None]
    if frame.judged and settled and not frame.queued and await answer_of_tools(drive, frame, scope, settled):
        await drive.commit(*unsent(drive, frame))  # which the agent judges next, and ends
        return None
    checked: list[_Checked] = []
    for call in calls:
        tool = await drive.tool_of(call)
        start = await start_with_question(drive, call, tool)
        if start is None:
            return None
        checked.append(_Checked(call, tool, *start))
    return ProviderCalls(drive, frame, checked)


async def run_at_provider(drive: Drive, call_id: str) -> None:
    """Run a call of a model that is talked to: its approval is sent on the connection, which says what came of it.

    Where the connection ends before, it is in doubt. What no connection can be sent lets nothing run, and the model is
    told so.
    """
    call = drive.run.calls[call_id]
    tool = await drive.tool_of(call)
    stands, line = still(call), drive.provider
    refusal = NO_LINE if line is None else await line.refusal(call)
    if line is None or refusal:
        item = item_of(call, tool, RecordedResult(refusal), ran=False)
        await drive.commit(stands, cm.FinishCall(call.id, item, failed=True))
        return
    checked = await start_with_question(drive, call, tool)
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
