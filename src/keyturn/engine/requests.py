"""The requests of a run: its waiting calls, as the items that people decide on."""

from __future__ import annotations

from typing import Any

from ..core.run import Call
from .drive import Drive
from .items import ToolApprovalItem
from .live import Live
from .project import approval_item


def requests_of(live: Live, tools: dict[str, Any]) -> list[ToolApprovalItem]:
    """Every waiting call, in the order in which the model made them."""
    run = live.run
    calls = sorted(run.groups["wait"].values(), key=_place)
    return [approval_item(run, call, live.graph.agent(call.agent), tools.get(call.id)) for call in calls]


def _place(call: Call) -> list[tuple[int, int]]:
    """Where a call stands, so that the tenth comes after the ninth."""
    parts = call.id.split("/")[1:]
    return [(int(turn), int(index)) for turn, _, index in (part.partition(".") for part in parts)]


async def tools_of(drive: Drive) -> dict[str, Any]:
    """The tools of the waiting calls, for their previews; a tool that is gone has none."""
    return {call.id: await drive.find_tool(call) for call in drive.run.groups["wait"].values()}
