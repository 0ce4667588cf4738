"""The ready-made filter leaves messages and takes every trace of calls, by the names that items have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from keyturn.agents.handoff import HandoffInputData
from keyturn.agents.handoff_filters import remove_all_tools
from tests.table import each

KEPT = [{"role": "user", "content": "hi"}, {"type": "message", "role": "assistant"}, {"type": "item_reference"}]
GONE = [
    "function_call",
    "function_call_output",
    "reasoning",
    "computer_call",
    "computer_call_output",
    "file_search_call",
    "web_search_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "image_generation_call",
    "code_interpreter_call",
    "tool_search_output",
]


@each("kind", GONE)
def test_items_of_calls_go(kind: str) -> None:
    history = (KEPT[0], {"type": kind}, KEPT[1], {"type": kind}, KEPT[2])
    data = remove_all_tools(HandoffInputData(history, ({"type": kind},), ()))
    assert list(data.input_history) == KEPT
    assert data.pre_handoff_items == ()


def run_item(kind: str) -> Any:
    return SimpleNamespace(type=kind)


def test_run_items_go_by_their_type() -> None:
    message = run_item("message_output_item")
    kinds = ["tool_call_item", "tool_call_output_item", "handoff_call_item", "handoff_output_item", "reasoning_item"]
    items = (message, *(run_item(kind) for kind in [*kinds, "tool_approval_item", "mcp_approval_request_item"]))
    data = HandoffInputData("hi", items, items, run_context=None, input_items=items)
    left = remove_all_tools(data)
    assert left.pre_handoff_items == left.new_items == left.input_items == (message,)
    assert left.input_history == "hi"
    assert len(data.new_items) == len(items), "the data that came in is left alone"


def test_what_is_not_set_stays_so() -> None:
    assert remove_all_tools(HandoffInputData((), (), ())).input_items is None
