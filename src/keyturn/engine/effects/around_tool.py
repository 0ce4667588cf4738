"""Let others have their word around a tool: guardrails on what goes in and on what came out, and hooks.

A guardrail can let pass, put a message in the result's place, or raise its tripwire. Hooks hear of a tool just before
it is touched, and when its result is recorded; an agent used as a tool is touched when its frame opens and has its
result when that frame ends.
"""

from __future__ import annotations

from typing import Any

from ...agents.tool_guardrail import (
    ToolInputGuardrailData,
    ToolInputGuardrailResult,
    ToolOutputGuardrailData,
    ToolOutputGuardrailResult,
)
from ...core.errors import ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered
from ...core.events import Report
from ...core.run import Call
from ...support.user_code import answer_of, raised_by
from ...tools.base import Tool
from ..driving.drive import Drive
from ..facts.values import jsonable
from ..run.frame_settings import FrameSettings
from ..tracing.spans import checked
from .result_words import RecordedResult
from .tool_errors import keep_words

_WITHHELD = "The tool's output was withheld."


async def rejected_by_input(drive: Drive, call: Call, tool: Tool, context: Any) -> tuple[list[Report], str | None]:
    """Return the input guardrails' reports, and the message that replaces the call if one rejected it."""
    reports: list[Report] = []
    for guardrail in tool.tool_input_guardrails or []:
        look = _asked(call, guardrail, ToolInputGuardrailData(context, drive.agent(call.agent)))
        said = await checked(drive.traces, guardrail, "tool_input", look)
        behavior = said.behavior["type"]
        result = ToolInputGuardrailResult(guardrail, said)
        reports.append(_report(drive, call, "tool_input", guardrail, (said, behavior, result)))
        if behavior == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(guardrail, said)
        if behavior == "reject_content":
            return reports, said.behavior["message"]
    return reports, None


async def judged(drive: Drive, call: Call, tool: Tool | None, value: Any, context: Any = None) -> RecordedResult:
    """Return what the output guardrails of a call's tool leave of its result, whoever gave it.

    A verdict that is not recorded with the result counts for nothing: it is asked for again.
    """
    guardrails = None if tool is None else tool.tool_output_guardrails
    if tool is None or not guardrails:
        return RecordedResult(value)
    if context is None:
        await drive.enter(call.frame)
        context = drive.tool_context(call, tool)
    reports: list[Report] = []
    for guardrail in guardrails:
        data = ToolOutputGuardrailData(context, drive.agent(call.agent), output=value)
        said = await checked(drive.traces, guardrail, "tool_output", _asked(call, guardrail, data))
        behavior = said.behavior["type"]
        result = ToolOutputGuardrailResult(guardrail, said)
        reports.append(_report(drive, call, "tool_output", guardrail, (said, behavior, result)))
        if behavior == "raise_exception":
            return RecordedResult(_WITHHELD, reports, ToolOutputGuardrailTripwireTriggered(guardrail, said), True)
        if behavior == "reject_content":
            return RecordedResult(said.behavior["message"], reports, withheld=True)
    return RecordedResult(value, reports)


async def _asked(call: Call, guardrail: Any, data: Any) -> Any:
    """Ask a guardrail about a call; what it raises carries none of the call's secrets to its span."""
    try:
        return await answer_of(guardrail.run, data)
    except Exception as error:
        keep_words(call, error)
        raise


def _report(drive: Drive, call: Call, stage: str, guardrail: Any, said: tuple[Any, str, Any]) -> Report:
    output, behavior, result = said
    name = guardrail.get_name()
    report = Report(name, stage, behavior != "allow", jsonable(output.output_info))
    return drive.live.heard(call.id, report, result)


async def tool_hooks(scope: FrameSettings, context: Any, name: str, tool: Tool, *args: Any) -> None:
    """Call one hook, the run's first and then the agent's."""
    agent = context.agent
    if not tool.announced:
        return
    for listener in (scope.hooks, agent.hooks):
        if listener is not None:
            with raised_by(f"{name} of the hooks, for tool {tool.name!r}"):
                await getattr(listener, name)(context, agent, tool, *args)
