"""Make the requests of a run the items that people decide on: each waiting call with its agent and its tool."""

from __future__ import annotations

from typing import Any

from ...core.request import waiting_calls
from ..run.open_run import OpenRun
from ..views.items import ToolApprovalItem
from ..views.projection import approval_item
from .drive import Drive


def requests_of(live: OpenRun, tools: dict[str, Any]) -> list[ToolApprovalItem]:
    """Return every waiting call, in the order in which the model made them."""
    run, graph = live.run, live.graph
    return [approval_item(run, call, graph.agent(call.agent), tools.get(call.id)) for call in waiting_calls(run)]


async def tools_of(drive: Drive) -> dict[str, Any]:
    """Return the tools of the waiting calls, to check edits with; a tool that is gone has none."""
    return {call.id: await drive.find_tool(call) for call in drive.run.groups["wait"].values()}
