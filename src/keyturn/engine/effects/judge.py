"""Decide whether an agent's work is done.

A reply without calls is the final answer, unless it does not have the required output type. After calls,
`tool_use_behavior` decides. For the root, a caller's error handler may supply the answer instead of an error. Every
answer passes `concluded`, where output guardrails run first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from ...agents.agent import Agent, FunctionToolResult, ToolsToFinalOutputResult
from ...agents.output import output_schema_for
from ...agents.settings import RunErrorData, RunErrorHandlerInput, handled
from ...core import commands as cm
from ...core import events as ev
from ...core.effects import sent_along
from ...core.empties import owned
from ...core.errors import ModelBehaviorError, ModelRefusalError, UserError
from ...core.events import Report
from ...core.items import Item, message_text, refusal_text
from ...core.run import Call, Frame
from ...sessions.history import superseded_output
from ...support.user_code import answer_of, raised_by, run_callback
from ..driving.drive import Drive
from ..facts.values import jsonable
from ..run.frame_settings import FrameSettings
from ..session.sync import save_session
from ..tracing.spans import checked
from ..views.items import ToolApprovalItem, ToolCallOutputItem
from .nested_frames import answer_caller

_UNSENT = "Not sent, and not executed: the agent's work ended before its model was asked again."


class FinalAnswer(NamedTuple):
    """Holds a final answer, as the caller gets it."""

    value: Any


async def judge(drive: Drive, frame_id: str) -> None:
    """Judge a frame whose reply is settled."""
    frame, scope = drive.log.run.frames[frame_id], await drive.enter(frame_id)
    agent = drive.graph.agent_at[frame.agent]
    if frame.results:
        answer = None if frame.unread else await answer_of_tools(drive, frame, scope, frame.results)
    else:
        try:
            answer = _of_reply(frame, agent)
        except (ModelRefusalError, ModelBehaviorError) as error:
            kind = "model_refusal" if isinstance(error, ModelRefusalError) else "invalid_final_output"
            await answered(drive, frame_id, kind, error)
            return
    if answer is None:
        await drive.commit(cm.JudgeFrame(frame_id, final=False))
        return
    reports = await concluded(drive, frame, scope, agent, answer.value)
    if any(report.tripped for report in reports):
        await drive.commit(cm.JudgeFrame(frame_id, final=False, reports=reports))
        return
    await save_session(drive, frame_id)
    owned(drive.live, "finals")[frame_id] = answer.value
    if frame_id == ev.ROOT:
        await drive.commit(cm.JudgeFrame(frame_id, final=True, output=jsonable(answer.value), reports=reports))
        return
    await answer_caller(drive, frame_id, scope, answer.value, reports)


def _of_reply(frame: Frame, agent: Agent[Any]) -> FinalAnswer | None:
    reply = [item for item in frame.items[frame.sent - frame.replied : frame.sent] if isinstance(item, dict)]
    plain = text_of(reply, agent)
    if plain is not None:
        return FinalAnswer(plain)
    text, refusal = _words(reply)
    if refusal:
        raise ModelRefusalError(refusal)
    schema = output_schema_for(agent.output_type)
    return FinalAnswer(run_callback(schema.validate_json, text)) if text and schema is not None else None


def text_of(reply: list[Item], agent: Agent[Any]) -> str | None:
    """Return the answer that a reply is, of an agent that answers with text; None of a refusal, and of other agents."""
    schema = output_schema_for(agent.output_type)
    if schema is not None and not schema.is_plain_text():
        return None
    text, refusal = _words(reply)
    return None if refusal else text


def _words(reply: list[Item]) -> tuple[str, str]:
    """Return the text of a reply's last message, and why it refuses."""
    texts = [item for item in reply if item.get("type", "message") == "message"]
    return (message_text(texts[-1]), refusal_text(texts[-1])) if texts else ("", "")


async def answer_of_tools(
    drive: Drive, frame: Frame, scope: FrameSettings, settled: Sequence[Call]
) -> FinalAnswer | None:
    """Return the answer that these calls' results are by the agent's `tool_use_behavior`; None where they are none."""
    agent = drive.graph.agent_at[frame.agent]
    behavior: Any = agent.tool_use_behavior
    results = await _results(drive, frame, agent, settled)
    if not results or behavior == "run_llm_again":
        return None
    if behavior == "stop_on_first_tool":
        return _answer(agent, results[0].output)
    if isinstance(behavior, dict):
        names = cast("list[str]", behavior["stop_at_tool_names"])
        return next((_answer(agent, result.output) for result in results if result.tool.name in names), None)
    verdict = await answer_of(behavior, scope.context, results)
    if not isinstance(verdict, ToolsToFinalOutputResult):
        raise UserError(f"tool_use_behavior must return a ToolsToFinalOutputResult, not {type(verdict).__name__}")
    return _answer(agent, verdict.final_output) if verdict.is_final_output else None


async def _results(drive: Drive, frame: Frame, agent: Agent[Any], settled: Sequence[Call]) -> list[FunctionToolResult]:
    """Return the turn's results in the order of its calls; only a tool of the agent can end its work."""
    toolset, results = await drive.toolset(frame), list[FunctionToolResult]()
    for call in settled:
        tool = toolset.find(call.raw)
        if tool is not None and tool.announced and not tool.after_siblings:
            item = cast("Item", call.item)
            value = drive.live.returned(call.id, item, call.value)
            results.append(FunctionToolResult(tool, value, ToolCallOutputItem(agent, item, output=value)))
    return results


def _answer(agent: Agent[Any], value: object) -> FinalAnswer:
    """Return a tool's answer; of an agent that answers with text, as text."""
    worded = agent.output_type is None or agent.output_type is str
    return FinalAnswer(str(value) if worded and not isinstance(value, str) else value)


async def concluded(drive: Drive, frame: Frame, scope: FrameSettings, agent: Agent[Any], value: object) -> list[Report]:
    """What the output guardrails said of an answer; where they let it pass, the end is told."""
    guardrails = [*agent.output_guardrails, *(scope.config.output_guardrails or [])]
    looks = [
        checked(drive.traces, one, "output", answer_of(one.run, scope.context, agent, value)) for one in guardrails
    ]
    results = await asyncio.gather(*looks)
    reports: list[Report] = []
    for result in results:
        name, output = result.guardrail.get_name(), result.output
        report = Report(name, "output", output.tripwire_triggered, jsonable(output.output_info))
        reports.append(drive.live.heard(frame.id, report, result))
    if any(report.tripped for report in reports):
        return reports
    with raised_by("on_agent_end or on_end of the hooks"):
        if scope.hooks is not None:
            await scope.hooks.on_agent_end(scope.context, agent, value)
        if agent.hooks is not None:
            await agent.hooks.on_end(scope.context, agent, value)
    return reports


async def answered(drive: Drive, frame_id: str, kind: str, error: Any) -> None:
    """Close the run with what the handler of this kind of error answers, or raise the error."""
    frame, scope = drive.log.run.frames[frame_id], await drive.enter(frame_id)
    if frame_id != ev.ROOT or kind not in (scope.error_handlers or {}):
        raise error
    data = RunErrorHandlerInput(error=error, context=scope.context, run_data=_error_data(drive.result()))
    answer = await handled(scope.error_handlers, kind, data)
    if answer is None:
        raise error
    value = answer.final_output
    reports = await concluded(drive, frame, scope, drive.graph.agent_at[frame.agent], value)
    if not any(report.tripped for report in reports):
        owned(drive.live, "finals")[frame_id] = value
    said = [_answer_message(value)] if answer.include_in_history else []
    await drive.commit(*unsent(drive, frame), cm.CloseRun(jsonable(value), said, reports))


def unsent(drive: Drive, frame: Frame) -> list[cm.RunCommand]:
    """Return commands that end the approved calls which no question will hold any more."""
    calls = sent_along(drive.log.run, frame)
    return [cm.FinishCall(call.id, superseded_output(call.raw, _UNSENT), failed=True) for call in calls]


def _error_data(result: Any) -> RunErrorData:
    new = result.new_items
    made = [item for item in new if item.raw_item is not None and not isinstance(item, ToolApprovalItem)]
    history, output = result.to_input_list(), [item.to_input_item() for item in made]
    return RunErrorData(result.input, new, history, output, result.raw_responses, result.last_agent)


def _answer_message(value: object) -> Item:
    text = value if isinstance(value, str) else str(value)
    part: Item = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]}
