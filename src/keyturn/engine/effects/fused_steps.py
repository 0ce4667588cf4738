"""Record the start of a call, or the end of a run, in the same step as what precedes it.

One commit costs more than the rest of a turn. It is done only if no guardrail, hook or policy has to run in between;
otherwise the loop takes the usual steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core import commands as cm
from ...core import events as ev
from ...core.effects import pending
from ...core.errors import Conflict
from ...core.gate.opening import still
from ...core.items import Item
from ...core.policy import ALLOW
from ...core.run import Call, Frame
from ...core.states import WAITING
from ...support.threads import place_of
from ...tools.base import Tool
from ..driving.drive import Drive
from ..run.frame_settings import FrameSettings
from .before_start import asked_otherwise, before_start, hooked
from .judge import text_of


async def deliver(drive: Drive, decisions: Sequence[ev.Decision], *commands: cm.RunCommand) -> None:
    """Record decisions, and with them the start that they allow, which the loop goes on from."""
    passed, starts = await _passed(drive, decisions)
    try:
        if starts is None:
            await drive.commit(*commands, *passed)
        else:
            await _begin(drive, *starts, *commands, *passed)
    except Conflict:
        if not passed:
            raise
        await drive.commit(*commands)


async def pass_on(drive: Drive, call: Call, tool: Tool) -> None:
    """Record that no policy stands against a decision, and with it the start of the call where nothing comes first."""
    stands, passed = still(call), _unopposed(call)
    if before_start(drive, drive.scope(call.frame), call, tool):
        await drive.commit(stands, passed)
        return
    try:
        await _begin(drive, call, tool, stands, passed)
    except Conflict:  # its siblings or guardrails come first, or its approval went stale
        await drive.commit(stands, passed)


def _unopposed(call: Call) -> cm.Screen:
    """Return the command to record that no policy stands against the decision on a call as it stands."""
    return cm.Screen(call.id, ALLOW, on_decision=True, revision=call.revision)


async def _begin(drive: Drive, call: Call, tool: Tool, *before: cm.RunCommand) -> None:
    """Record the start of a call with what precedes it; its tool is run next, in a thread that is free already."""
    place = await place_of(tool.blocking)
    try:
        await drive.commit(*before, drive.start_of(call, call.proposal.tool))
    except BaseException:
        place.leave()
        raise
    drive.begin_call(call.id, place)


async def _passed(
    drive: Drive, decisions: Sequence[ev.Decision]
) -> tuple[list[cm.RunCommand], tuple[Call, Tool] | None]:
    """Return commands: no policy stands against these decisions; and the call and tool that a lone one starts."""
    made: list[cm.RunCommand] = []
    starts = None
    for decision in decisions:
        call = drive.log.run.calls.get(decision.call)
        if call is None or call.state not in WAITING or asked_otherwise(call):
            continue
        if (await drive.enter(call.frame)).policies:
            continue
        made.append(_unopposed(call))
        if len(decisions) == 1 and call.state == "asked" and decision.verdict in ("approve", "edit"):
            starts = await _startable(drive, call)
    return made, starts


async def _startable(drive: Drive, call: Call) -> tuple[Call, Tool] | None:
    """Return a call and its tool, where nothing must be checked before it starts and nothing else is to be done."""
    scope = await drive.enter(call.frame)
    tool = await drive.find_tool(call)
    if tool is None or pending(drive.log.run, first=True) or before_start(drive, scope, call, tool):
        return None
    return call, tool


def end_of(drive: Drive, frame: Frame, scope: FrameSettings, reply: list[Item]) -> list[cm.JudgeFrame]:
    """Return the command to end a run with this text of its agent, where nothing checks it first."""
    agent = drive.graph.agent_at[frame.agent]
    looked: Any = agent.output_guardrails or scope.config.output_guardrails or hooked(drive, scope, frame.agent)
    if looked or frame.id != ev.ROOT or frame.guarding or scope.session is not None:
        return []
    text = text_of(reply, agent)
    return [] if text is None else [cm.JudgeFrame(frame.id, final=True, output=text)]
