"""Ready-made filters for what the next agent sees after a handoff.

A filter takes `HandoffInputData` and returns it; it reads items by their type and changes nothing in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .handoff import HandoffInputData

# What belongs to calls, whatever the kind of tool: a new kind is covered by how items are named.
_CALL_ENDINGS = ("_call", "_call_output", "_output")
_TOOL_RUN_ITEMS = frozenset(
    {"tool_call_item", "tool_call_output_item", "handoff_call_item", "handoff_output_item", "tool_approval_item"}
    | {"mcp_list_tools_item", "mcp_approval_request_item", "mcp_approval_response_item", "reasoning_item"}
    | {"tool_search_call_item", "tool_search_output_item"}
)


def remove_all_tools(handoff_input_data: HandoffInputData) -> HandoffInputData:
    """Leave out every call, result and reasoning item: the next agent sees the messages only.

    >>> history = ({"role": "user", "content": "hi"}, {"type": "function_call", "call_id": "c1"})
    >>> remove_all_tools(HandoffInputData(history, (), ())).input_history
    ({'role': 'user', 'content': 'hi'},)
    """
    data = handoff_input_data
    history = data.input_history
    return data.clone(
        input_history=history if isinstance(history, str) else tuple(item for item in history if not _of_call(item)),
        pre_handoff_items=_kept(data.pre_handoff_items),
        new_items=_kept(data.new_items),
        input_items=None if data.input_items is None else _kept(data.input_items),
    )


def _kept(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(item for item in items if not _of_tools(item))


def _of_tools(item: object) -> bool:
    """Return whether a run item, or a plain item that a filter put among them, belongs to a call."""
    if isinstance(item, Mapping):
        return _of_call(cast("Mapping[str, Any]", item))
    return getattr(item, "type", "") in _TOOL_RUN_ITEMS


def _of_call(item: Mapping[str, Any]) -> bool:
    kind: str = item.get("type") or "message"
    # Reasoning goes as well: providers refuse it without the call that it led to.
    return kind in ("reasoning", "program") or kind.startswith("mcp_") or kind.endswith(_CALL_ENDINGS)
