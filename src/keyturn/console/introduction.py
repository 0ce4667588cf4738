"""What is said of a call before it is shown: who wants what, how the tool describes itself, and why it asks.

Nothing is asked or decided here. Names, descriptions and reasons are anybody's words: they are labelled, never put into
a sentence of ours.
"""

from __future__ import annotations

import json
from typing import Any, LiteralString, cast

from ..core.preview import Diff, Preview, Text
from ..engine.views.items import ToolApprovalItem
from ..presenting.asking import FIND_OUT, agent_task, agent_words
from ..presenting.clock import here
from ..presenting.message_context import ADVICE, Context
from ..render.escape import Escaped, escape
from ..render.names import doubtful_names
from ..render.one_row import arguments_row
from .screen import RULE, Terminal

_WANTS: dict[str, LiteralString] = {
    "approval": "wants to run",
    "in_doubt": "wants to run",
    "external": "needs an answer for",
    "review": "ran",
}
DESCRIBED = 300  # characters that are shown of what a tool says of itself

_IN_DOUBT: LiteralString = "The outcome is unknown: the call was started, and the process was stopped before it ended."


def list_calls(screen: Terminal, items: list[ToolApprovalItem]) -> None:
    """List what is to come, each call in a row: of its arguments those that fit, and how many do not."""
    screen.say()
    screen.say("{} calls require your decision. Each is shown in full in its turn.", len(items))
    for place, item in enumerate(items, 1):
        row = f"{place}  {escape(item.qualified_name or '', keep='')}"
        given: Any = item.params
        known = cast("dict[str, Any]", given) if item.kind == "approval" and isinstance(given, dict) else {}
        room = min(screen.columns, RULE) - len(row) - len("  call:   ")
        screen.label("call", Escaped(f"{row}  {arguments_row(known, room)}".rstrip()))


def introduce(screen: Terminal, item: ToolApprovalItem, place: int, count: int) -> None:
    """Say which call of how many it is, who wants what, and why it asks."""
    screen.say()
    screen.stress("Call {} of {}", place, count)
    describe(screen, item)


def describe(screen: Terminal, item: ToolApprovalItem) -> None:
    """Say who wants what, and why it asks."""
    tool = item.qualified_name or ""
    screen.label("agent", agent_words(item.request.path, item.agent.name))
    if task := agent_task(item.request.path):
        screen.label("task from the agent that called it", task)
    screen.label(_WANTS[item.kind], tool)
    described = _description(item)
    if described:
        screen.label("tool description", described)
    for name, doubt in doubtful_names([item.agent.name, tool], item.params):
        screen.label("Warning", f"the name {name} {doubt}")
    if item.kind == "in_doubt":
        _tell_start(screen, item)
    if item.request.reviews and item.request.former is not None:
        screen.label("allowed by", item.request.former.by)
    if item.request.risk:
        screen.label("risk, as the tool states it", item.request.risk)
    if item.reason:
        screen.label("reason", item.reason)
    if item.expires_at is not None:
        screen.label("expires", here(item.expires_at))
    if item.difference:
        before, after = (json.dumps(item.difference[side], indent=2) for side in ("before", "after"))
        screen.say()
        screen.draw(Preview((Diff(before, after, label="the tool changed after it was shown"),)))
    screen.say()


def point_out(screen: Terminal, context: Context) -> None:
    """Point out how the model's words press whoever decides, as advice; the words are quoted small and plain."""
    if not context.signs:
        return
    screen.say(ADVICE)
    for sign in context.signs:
        screen.label(cast("LiteralString", f"it {sign.says}"), sign.words)
    screen.say()


def _tell_start(screen: Terminal, item: ToolApprovalItem) -> None:
    """Say what is known of a start whose end nobody knows."""
    request = item.request
    screen.say(_IN_DOUBT)
    if request.started_at is not None:
        screen.label("started", here(request.started_at))
    if request.started_by:
        screen.label("started by", request.started_by)
    if request.former is not None:
        screen.label("decided by", f"{request.former.by or 'unknown'}: {request.former.verdict}")
    screen.say(FIND_OUT)


def _description(item: ToolApprovalItem) -> str:
    """Return the first paragraph of a tool's description, cut with a mark, unless its preview shows it already."""
    told = str(item.request.description or getattr(item.tool, "description", "") or "").strip()
    if any(isinstance(block, Text) and block.text.strip() == told for block in item.preview.blocks):
        return ""
    first = " ".join(told.split("\n\n")[0].split())
    return first if len(first) <= DESCRIBED else f"{first[:DESCRIBED]}[...]"
