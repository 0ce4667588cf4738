"""Apply the caller's own wording to results that stand for none."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from ...agents.settings import ToolErrorFormatterArgs
from ...core.events import Proposal
from ..run.frame_settings import FrameSettings


async def worded(
    scope: FrameSettings, kind: Any, proposal: Proposal, default: str, error: Exception | None = None
) -> str:
    """Return what `tool_error_formatter` says in place of the default, else the default."""
    formatter: Any = scope.config.tool_error_formatter
    if formatter is None:
        return default
    args = ToolErrorFormatterArgs(kind, proposal.kind, proposal.name, proposal.label, default, scope.context, error)
    answer = formatter(args)
    answer = await answer if inspect.isawaitable(answer) else answer
    return answer if isinstance(answer, str) else default


async def unknown_worded(scope: FrameSettings, proposals: list[Proposal]) -> list[Proposal]:
    """Return the proposals of a reply, with calls of unknown tools refused in the caller's words."""
    if scope.config.tool_error_formatter is None:
        return proposals
    told: list[Proposal] = []
    for proposal in proposals:
        if proposal.kind == "unknown" and proposal.refused is not None:
            text = await worded(scope, "tool_not_found", proposal, proposal.refused["output"])
            proposal = msgspec.structs.replace(proposal, refused={**proposal.refused, "output": text})
        told.append(proposal)
    return told
