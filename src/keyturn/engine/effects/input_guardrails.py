"""Run input guardrails before or beside the first model call; they report before any tool runs."""

from __future__ import annotations

import asyncio
from typing import Any

from ...agents.guardrail import InputGuardrail, InputGuardrailResult
from ...core import commands as cm
from ...core import events as ev
from ...core.errors import Conflict, InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered
from ...core.items import Item, as_given, input_items, own_copies, own_copy
from ...core.run import Frame
from ...support.user_code import answer_of
from ..driving.drive import Drive
from ..facts.values import jsonable
from ..run.frame_settings import FrameSettings
from ..tracing.spans import checked
from ..views.guardrail_results import guardrail_result


def input_guardrails(drive_agent: Any, scope: FrameSettings) -> list[InputGuardrail[Any]]:
    """Return the guardrails on a frame's input: its agent's and its configuration's."""
    return [*drive_agent.input_guardrails, *(scope.config.input_guardrails or [])]


def guarded(guardrails: list[InputGuardrail[Any]]) -> ev.Guarded:
    """Return whether they report before the first model call or beside it."""
    if not guardrails:
        return ""
    return "beside" if all(guardrail.run_in_parallel for guardrail in guardrails) else "before"


async def guard(drive: Drive, frame_id: str) -> None:
    """Run a frame's input guardrails together and record what they said, of every message that came meanwhile too."""
    scope = await drive.enter(frame_id)
    while True:
        frame = drive.run.frames[frame_id]
        agent = drive.agent(frame.agent)
        unseen = frame.unseen
        given = _given(drive, frame)
        # Each has its own: what one of them edits, the others would not see.
        looks = [
            checked(drive.traces, one, "input", answer_of(one.run, agent, own_copy(given), scope.context))
            for one in _guardrails(drive, frame, scope)
        ]
        results = await asyncio.gather(*looks)
        reports = [_report(drive, frame, result) for result in results]
        try:
            await drive.commit(cm.GuardFrame(frame_id, reports, len(unseen)))
        except Conflict:
            now = drive.run.frames.get(frame_id)
            if now is None or now.unseen == unseen:
                raise
            continue
        return


def _guardrails(drive: Drive, frame: Frame, scope: FrameSettings) -> list[InputGuardrail[Any]]:
    """Return who looks at a frame's input; at a message that came later, those of the agent it began with as well."""
    paths = dict.fromkeys((*frame.before[:1], frame.agent))
    found = [one for path in paths for one in input_guardrails(drive.agent(path), scope)]
    return list({id(one): one for one in found}.values())


def _given(drive: Drive, frame: Frame) -> str | list[Item]:
    """Return what they look at: what the frame began with, if they have not yet, and the messages that were added."""
    if frame.guarding in ("ahead", "along"):
        return as_given(own_copies([*frame.unseen]))
    began = _began(drive, frame)
    return [*input_items(began), *own_copies([*frame.unseen])] if frame.unseen else began


def _began(drive: Drive, frame: Frame) -> str | list[Item]:
    """Return the agent's input: the caller's; with a session, the conversation that it ends."""
    if frame.prefix is not None:
        return drive.live.conversation(frame.id)[: frame.history]
    if frame.id == ev.ROOT:
        return drive.run.input
    return as_given(drive.live.conversation(frame.id)[: frame.history])


def _report(drive: Drive, frame: Frame, result: InputGuardrailResult) -> ev.Report:
    name, output = result.guardrail.get_name(), result.output
    report = ev.Report(name, "input", output.tripwire_triggered, jsonable(output.output_info))
    return drive.live.heard(frame.id, report, result)


async def tripped(drive: Drive, frame_id: str) -> None:
    """Raise the tripwire of a guardrail, now and whenever the run is resumed."""
    report = drive.run.frames[frame_id].tripped
    assert report is not None
    result = guardrail_result(drive.live, frame_id, report)
    if report.stage == "input":
        raise InputGuardrailTripwireTriggered(result)
    raise OutputGuardrailTripwireTriggered(result)
