"""Open a nested frame: an agent used as a tool begins to work inside the same run."""

from __future__ import annotations

from ...core import commands as cm
from ...core.items import input_items, own_copy
from ...core.run import Call
from ...tools.base import Delegate
from ..driving.drive import Drive
from ..session.sync import opening
from .input_guardrails import guarded, input_guardrails


async def open_frame(drive: Drive, call: Call, delegate: Delegate) -> None:
    """Record that a nested agent answers for a started call."""
    inner = await drive.enter(call.id)
    inner.context.turn_input = own_copy(input_items(delegate.input))
    path = drive.live.graph.path(delegate.agent, call.agent)
    items, prefix = await opening(drive.live, call.id, inner, input_items(delegate.input))
    await drive.commit(
        cm.OpenFrame(
            call.id,
            path,
            items,
            delegate.max_turns,
            guarded(input_guardrails(delegate.agent, inner)),
            prefix,
            getattr(inner.tool, "previous_response_id", None),
        )
    )
