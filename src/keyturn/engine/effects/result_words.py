"""Make the item that the model reads as a call's result, and its text where a call has none of its own.

Every result is made an item here, of a `RecordedResult`: that has passed the output guardrails of its tool, or is a
text of ours. The recorded call is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ...agents.settings import ToolErrorFormatterArgs
from ...core.digest import canonical
from ...core.events import Proposal, Report
from ...core.items import EDITED, Item
from ...core.preview import redact
from ...core.run import Call
from ...sessions.history import superseded_output
from ...support.user_code import answer_of
from ...tools.base import Tool, text_noticed
from ..run.frame_settings import FrameSettings


class RecordedResult(NamedTuple):
    """Holds what is recorded as a call's result: what the output guardrails left of it, or a text of ours.

    `tripwire` is raised once it is recorded. `withheld` says that a text stands in place of what was given.
    """

    value: Any
    reports: Sequence[Report] = ()
    tripwire: Exception | None = None
    withheld: bool = False


def item_of(call: Call, tool: Tool | None, result: RecordedResult, *, ran: bool = True) -> Item:
    """Return the item that the model reads as a result; of a tool that is gone, its plain text.

    Where the call `ran`, it says what a person had changed.
    """
    if tool is None:
        item = superseded_output(call.raw, str(result.value))
    else:
        item = tool.output(call.raw, result.value)
    return told_of_edit(call, tool, item) if ran else item


async def worded(
    scope: FrameSettings, kind: Any, proposal: Proposal, default: str, error: Exception | None = None
) -> str:
    """Return what `tool_error_formatter` says in place of the default, else the default."""
    formatter: Any = scope.config.tool_error_formatter
    if formatter is None:
        return default
    args = ToolErrorFormatterArgs(kind, proposal.kind, proposal.name, proposal.label, default, scope.context, error)
    answer = await answer_of(formatter, args)
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


def told_of_edit(call: Call, tool: Tool | None, item: Item) -> Item:
    """A call's result; where a person changed the arguments, with word of it for the model, and to what.

    A secret that a person typed is not the model's to read.
    """
    if not call.edited:
        return item
    secrets = call.proposal.secrets  # as they were when the call was shown: the tool may be gone, or another by now
    ran = canonical(redact(call.params, secrets)) if secrets else call.text
    return (tool.notice if tool is not None else text_noticed)(item, EDITED + ran)
