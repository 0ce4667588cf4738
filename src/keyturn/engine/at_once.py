"""What is recorded in one step with what came just before it: the one call's start, the run's end.

A commit to a disk costs more than the rest of a turn. This says only what may go along; where anybody else's code has a
word first, a guardrail or a hook or a policy, nothing does, and the loop goes its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import commands as cm
from ..core import events as ev
from ..core.effects import pending
from ..core.errors import Conflict
from ..core.items import Item
from ..core.policy import ALLOW
from ..core.run import Call, Frame
from ..tools.base import Tool
from .before_start import before_start, hooked
from .drive import Drive
from .judge import text_of
from .scope import Scope


async def deliver(drive: Drive, decisions: Sequence[ev.Decision], *commands: cm.Command) -> None:
    """Record what was said, and with it the start that it allows, which the loop goes on from."""
    starts = await _start(drive, decisions)
    try:
        await drive.commit(*commands, *starts)
    except Conflict:
        if not starts:
            raise
        await drive.commit(*commands)
        return
    drive.begun.update(start.call for start in starts if isinstance(start, cm.StartCall))


async def pass_on(drive: Drive, call: Call, tool: Tool) -> None:
    """Record that no policy stands against a decision, and with it the start of the call where nothing comes first."""
    passed = cm.Screen(call.id, ALLOW)
    if before_start(drive, drive.scope(call.frame), call, tool):
        await drive.commit(passed)
        return
    try:
        await drive.commit(passed, cm.StartCall(call.id, call.proposal.tool))
    except Conflict:  # its siblings or guardrails come first, or its approval went stale
        await drive.commit(passed)
        return
    drive.begun.add(call.id)


async def _start(drive: Drive, decisions: Sequence[ev.Decision]) -> list[cm.Command]:
    """The start of the call that a lone decision lets run, where nothing is asked or looked at before it starts."""
    if len(decisions) != 1:
        return []
    [decision] = decisions
    call = drive.run.calls.get(decision.call)
    if call is None or call.state != "asked" or decision.verdict not in ("approve", "edit") or pending(drive.run):
        return []
    scope, tool = await drive.enter(call.frame), await drive.find_tool(call)
    if tool is None or before_start(drive, scope, call, tool):
        return []
    return [cm.Screen(call.id, ALLOW), cm.StartCall(call.id, call.proposal.tool)]


def end_of(drive: Drive, frame: Frame, scope: Scope, reply: list[Item]) -> list[cm.JudgeFrame]:
    """The end of a run with this text of its agent, where nobody looks at it first."""
    agent = drive.agent(frame.agent)
    looked: Any = agent.output_guardrails or scope.config.output_guardrails or hooked(drive, scope, frame.agent)
    if looked or frame.id != ev.ROOT or frame.guarding or scope.session is not None:
        return []
    text = text_of(reply, agent)
    return [] if text is None else [cm.JudgeFrame(frame.id, final=True, output=text)]
