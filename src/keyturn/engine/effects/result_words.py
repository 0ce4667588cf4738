"""The words that stand for a result where there is none, if the caller has words of its own for them."""

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
    """What `tool_error_formatter` says in place of the default; the default where it says nothing."""
    formatter: Any = scope.config.tool_error_formatter
    if formatter is None:
        return default
    args = ToolErrorFormatterArgs(kind, proposal.kind, proposal.name, proposal.label, default, scope.context, error)
    answer = formatter(args)
    answer = await answer if inspect.isawaitable(answer) else answer
    return answer if isinstance(answer, str) else default


async def unknown_worded(scope: FrameSettings, proposals: list[Proposal]) -> list[Proposal]:
    """The proposals of a reply, calls of unknown tools refused in the caller's words."""
    if scope.config.tool_error_formatter is None:
        return proposals
    told: list[Proposal] = []
    for proposal in proposals:
        if proposal.kind == "unknown" and proposal.refused is not None:
            text = await worded(scope, "tool_not_found", proposal, proposal.refused["output"])
            proposal = msgspec.structs.replace(proposal, refused={**proposal.refused, "output": text})
        told.append(proposal)
    return told
