"""Filter what the next agent sees after a handoff, as a view that a log can hold."""

from __future__ import annotations

from typing import Any

from ...agents.handoff import HandoffInputData
from ...core.errors import UserError
from ...core.items import Item, own_copy, plain_item
from ...core.run import Call
from ...support.user_code import answer_of
from ..driving.drive import Drive
from ..session.segments import View, segments
from ..views.items import HandoffCallItem, HandoffOutputItem, RunItem, RunItemBase, ToolCallOutputItem, reply_item


async def filtered_view(drive: Drive, call: Call, item: Item, input_filter: Any) -> View:
    """Run the filter on the frame's items after this call; return kept ranges and new items."""
    frame = drive.run.frames[call.frame]
    if drive.scope(frame.id).managed:
        raise UserError(
            "the conversation is kept at the provider, which has seen all of it: an input_filter and "
            "nest_handoff_history change nothing there; leave them out, or keep the conversation here"
        )
    before = drive.live.conversation(frame.id)
    outputs = [item if other == call.id else drive.run.calls[other].item for other in frame.calls]
    full = [*before, *(output for output in outputs if output is not None)]
    cut = len(before) - frame.replied
    data = HandoffInputData(
        input_history=tuple(own_copy(full[: frame.history])),
        pre_handoff_items=tuple(_run_item(drive, call, raw) for raw in full[frame.history : cut]),
        new_items=tuple(_run_item(drive, call, raw) for raw in full[cut:]),
        run_context=drive.scope(frame.id).context,
    )
    answer = await answer_of(input_filter, data)
    if not isinstance(answer, HandoffInputData):
        raise UserError(f"a handoff's input_filter must return HandoffInputData, not {type(answer).__name__}")
    return segments(full, _flat(answer))


def _run_item(drive: Drive, call: Call, raw: Item) -> RunItem:
    agent = drive.agent(call.agent)
    mine = raw.get("call_id") == call.proposal.label
    if raw.get("type", "").endswith("_output"):
        return HandoffOutputItem(agent, raw, source_agent=agent) if mine else ToolCallOutputItem(agent, raw)
    if mine:
        return HandoffCallItem(agent, raw)
    return reply_item(agent, raw)


def _flat(data: HandoffInputData) -> list[Item]:
    history = data.input_history
    start: list[Any] = [{"role": "user", "content": history}] if isinstance(history, str) else list(history)
    items = data.new_items if data.input_items is None else data.input_items
    return [
        plain_item(part.to_input_item() if isinstance(part, RunItemBase) else part)
        for part in (*start, *data.pre_handoff_items, *items)
    ]
