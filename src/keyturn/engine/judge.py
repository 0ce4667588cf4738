"""Whether a frame has its final answer, and what it is.

A reply without calls is one, unless the agent owes an answer of a type and gave none. After calls, the agent's
`tool_use_behavior` says. Output guardrails see the answer before anybody else does.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, NamedTuple, cast

from ..agents.agent import Agent, FunctionToolResult, ToolsToFinalOutputResult
from ..agents.output import output_schema_for
from ..core import commands as cm
from ..core import events as ev
from ..core.errors import ModelRefusalError
from ..core.items import Item, message_text, refusal_text
from ..core.run import Frame
from .drive import Drive
from .facts import jsonable
from .history import save_session
from .items import ToolCallOutputItem
from .scope import Scope


class Answer(NamedTuple):
    """A final answer, as the caller gets it."""

    value: Any


async def judge(drive: Drive, frame_id: str) -> None:
    """Judge a frame whose reply is settled."""
    frame, scope = drive.run.frames[frame_id], await drive.enter(frame_id)
    agent = drive.agent(frame.agent)
    answer = await _of_tools(drive, frame, scope, agent) if frame.results else _of_reply(frame, agent)
    if answer is None:
        await drive.commit(cm.JudgeFrame(frame_id, final=False))
        return
    reports = await _output_guardrails(drive, frame, scope, agent, answer.value)
    if any(report.tripped for report in reports):
        await drive.commit(cm.JudgeFrame(frame_id, final=False, reports=reports))
        return
    if scope.hooks is not None:
        await scope.hooks.on_agent_end(scope.context, agent, answer.value)
    if agent.hooks is not None:
        await agent.hooks.on_end(scope.context, agent, answer.value)
    await save_session(drive, frame_id)
    drive.live.finals[frame_id] = answer.value
    item = None if frame_id == ev.ROOT else await _for_caller(drive, frame_id, scope, answer.value)
    await drive.commit(cm.JudgeFrame(frame_id, final=True, output=jsonable(answer.value), item=item, reports=reports))


def _of_reply(frame: Frame, agent: Agent[Any]) -> Answer | None:
    reply = [item for item in frame.items[frame.sent - frame.replied : frame.sent] if isinstance(item, dict)]
    texts = [item for item in reply if item.get("type", "message") == "message"]
    text = message_text(texts[-1]) if texts else ""
    schema = output_schema_for(agent.output_type)
    if schema is None or schema.is_plain_text():
        return Answer(text or (refusal_text(texts[-1]) if texts else ""))
    if text:
        return Answer(schema.validate_json(text))
    if texts and refusal_text(texts[-1]):
        raise ModelRefusalError(refusal_text(texts[-1]))
    return None


async def _of_tools(drive: Drive, frame: Frame, scope: Scope, agent: Agent[Any]) -> Answer | None:
    behavior: Any = agent.tool_use_behavior
    toolset = await drive.toolset(frame)
    results: list[FunctionToolResult] = []
    for call in frame.results:
        tool = toolset.find(call.raw.get("type", "function_call"), call.proposal.name)
        item = cast("Item", call.item)
        value = call.value if call.value is not None else item.get("output")
        results.append(FunctionToolResult(tool, value, ToolCallOutputItem(agent, item, output=value)))
    if behavior == "stop_on_first_tool":
        return Answer(results[0].output)
    if isinstance(behavior, dict):
        names = cast("list[str]", behavior["stop_at_tool_names"])
        calls = zip(frame.results, results, strict=True)
        return next((Answer(result.output) for call, result in calls if call.proposal.name in names), None)
    if not callable(behavior):
        return None
    verdict: Any = behavior(scope.context, results)
    verdict = cast("ToolsToFinalOutputResult", await verdict if inspect.isawaitable(verdict) else verdict)
    return Answer(verdict.final_output) if verdict.is_final_output else None


async def _output_guardrails(
    drive: Drive, frame: Frame, scope: Scope, agent: Agent[Any], value: Any
) -> list[ev.Report]:
    guardrails = [*agent.output_guardrails, *(scope.config.output_guardrails or [])]
    results = await asyncio.gather(*(one.run(scope.context, agent, value) for one in guardrails))
    reports: list[ev.Report] = []
    for result in results:
        name = result.guardrail.get_name()
        drive.live.guardrails[f"{frame.id}:output:{name}"] = result
        output = result.output
        reports.append(ev.Report(name, "output", output.tripwire_triggered, jsonable(output.output_info)))
    return reports


async def _for_caller(drive: Drive, frame_id: str, scope: Scope, value: Any) -> Item:
    """A nested frame's answer as the result of the call that opened it."""
    call, tool = drive.run.calls[frame_id], scope.tool
    extractor = tool.custom_output_extractor
    if extractor is not None:
        text = extractor(drive.result(frame_id, value))
        value = await text if inspect.isawaitable(text) else text
    return tool.output(call.raw, value)
