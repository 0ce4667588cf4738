"""The requests of a run as the items that people decide on: each waiting call with its agent and its tool."""

from __future__ import annotations

from typing import Any

from ..core.call_ids import place_of
from .drive import Drive
from .items import ToolApprovalItem
from .live import Live
from .project import approval_item


def requests_of(live: Live, tools: dict[str, Any]) -> list[ToolApprovalItem]:
    """Every waiting call, in the order in which the model made them."""
    run = live.run
    calls = sorted(run.groups["wait"].values(), key=lambda call: place_of(call.id))
    return [approval_item(run, call, live.graph.agent(call.agent), tools.get(call.id)) for call in calls]


async def tools_of(drive: Drive) -> dict[str, Any]:
    """The tools of the waiting calls, to check edits with; a tool that is gone has none."""
    return {call.id: await drive.find_tool(call) for call in drive.run.groups["wait"].values()}
