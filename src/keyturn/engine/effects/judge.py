"""Judge whether a frame has its final answer, and what it is.

A reply without calls is one, unless the agent owes an answer of a type and gave none. After calls, the agent's
`tool_use_behavior` says. Output guardrails see the answer before anybody else does.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, cast

from ...agents.agent import Agent, FunctionToolResult, ToolsToFinalOutputResult
from ...agents.output import output_schema_for
from ...core import commands as cm
from ...core import events as ev
from ...core.errors import ModelBehaviorError, ModelRefusalError
from ...core.events import Report
from ...core.items import Item, message_text, own_copy, refusal_text
from ...core.run import Frame
from ..driving.drive import Drive
from ..run.facts import jsonable
from ..run.frame_settings import FrameSettings
from ..session.sync import save_session
from ..views.items import ToolCallOutputItem
from .conclude import concluded
from .decision_words import told_of_edit
from .error_handlers import answered
from .tool_hooks import tool_hooks


class FinalAnswer(NamedTuple):
    """Holds a final answer, as the caller gets it."""

    value: Any


async def judge(drive: Drive, frame_id: str) -> None:
    """Judge a frame whose reply is settled."""
    frame, scope = drive.run.frames[frame_id], await drive.enter(frame_id)
    agent = drive.agent(frame.agent)
    if frame.results:
        answer = await _of_tools(drive, frame, scope, agent)
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
    drive.live.finals[frame_id] = answer.value
    if frame_id == ev.ROOT:
        await drive.commit(cm.JudgeFrame(frame_id, final=True, output=jsonable(answer.value), reports=reports))
        return
    await _answer_caller(drive, frame_id, scope, (answer.value, reports))


async def _answer_caller(drive: Drive, frame_id: str, scope: FrameSettings, final: tuple[Any, list[Report]]) -> None:
    """Close a nested frame with its answer as the result of the call that opened it."""
    answer, reports = final
    call = drive.run.calls[frame_id]
    tool = scope.tool
    value = answer
    if tool.custom_output_extractor is not None:
        text = tool.custom_output_extractor(drive.result(frame_id, answer))
        value = await text if inspect.isawaitable(text) else text
    if frame_id in drive.feeds:
        await drive.feeds[frame_id].drained()
    context, item = drive.tool_context(call, tool), told_of_edit(call, tool, tool.output(call.raw, value))
    await drive.commit(cm.JudgeFrame(frame_id, final=True, output=jsonable(answer), item=item, reports=reports))
    await tool_hooks(drive.scope(call.frame), context, "on_tool_end", tool, value)


def _of_reply(frame: Frame, agent: Agent[Any]) -> FinalAnswer | None:
    reply = [item for item in frame.items[frame.sent - frame.replied : frame.sent] if isinstance(item, dict)]
    plain = text_of(reply, agent)
    if plain is not None:
        return FinalAnswer(plain)
    text, refusal = _words(reply)
    schema = output_schema_for(agent.output_type)
    if text and schema is not None:
        return FinalAnswer(schema.validate_json(text))
    if refusal:
        raise ModelRefusalError(refusal)
    return None


def text_of(reply: list[Item], agent: Agent[Any]) -> str | None:
    """Return the answer that a reply is, of an agent that answers with text; None of one that owes something else."""
    schema = output_schema_for(agent.output_type)
    if schema is not None and not schema.is_plain_text():
        return None
    text, refusal = _words(reply)
    return text or refusal


def _words(reply: list[Item]) -> tuple[str, str]:
    """Return the text of a reply's last message, and why it refuses."""
    texts = [item for item in reply if item.get("type", "message") == "message"]
    return (message_text(texts[-1]), refusal_text(texts[-1])) if texts else ("", "")


async def _of_tools(drive: Drive, frame: Frame, scope: FrameSettings, agent: Agent[Any]) -> FinalAnswer | None:
    behavior: Any = agent.tool_use_behavior
    results = await _results(drive, frame, agent)
    if not results or behavior == "run_llm_again":
        return None
    if behavior == "stop_on_first_tool":
        return _answer(agent, results[0].output)
    if isinstance(behavior, dict):
        names = cast("list[str]", behavior["stop_at_tool_names"])
        return next((_answer(agent, result.output) for result in results if result.tool.name in names), None)
    verdict: Any = behavior(scope.context, results)
    verdict = cast("ToolsToFinalOutputResult", await verdict if inspect.isawaitable(verdict) else verdict)
    return _answer(agent, verdict.final_output) if verdict.is_final_output else None


async def _results(drive: Drive, frame: Frame, agent: Agent[Any]) -> list[FunctionToolResult]:
    """Return the turn's results in the order of its calls; only a tool of the agent can end its work."""
    toolset, results = await drive.toolset(frame), list[FunctionToolResult]()
    for call in frame.results:
        tool = toolset.find(call.raw)
        if tool is not None and tool.announced and not tool.after_siblings:
            item = cast("Item", call.item)
            value = own_copy(call.value if call.value is not None else item.get("output"))
            results.append(FunctionToolResult(tool, value, ToolCallOutputItem(agent, item, output=value)))
    return results


def _answer(agent: Agent[Any], value: Any) -> FinalAnswer:
    """Return a tool's answer; of an agent that answers with text, as text."""
    worded = agent.output_type is None or agent.output_type is str
    return FinalAnswer(str(value) if worded and not isinstance(value, str) else value)
