"""What a conversation owes: pairing, settling, windows and addresses, mostly as laws."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn.core.digest import canonical
from keyturn.core.errors import UserError
from keyturn.sessions.history import (
    BLANK_SCREENSHOT,
    ContentAddress,
    content_address,
    drop_leading_orphans,
    orphan_calls,
    orphan_outputs,
    superseded_output,
)
from tests.effort import some
from tests.table import each

Item = dict[str, Any]

KINDS = (
    "function_call",
    "custom_tool_call",
    "shell_call",
    "local_shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
)
MOVED_ON = "no result: the user moved on. If the call still waited for approval, it is not executed."


def call(kind: str, label: str) -> Item:
    if kind == "mcp_approval_request":
        return {"type": kind, "id": label, "name": "pay", "server_label": "bank", "arguments": "{}"}
    return {"type": kind, "id": f"item_{label}", "call_id": label}


def output(kind: str, label: str) -> Item:
    if kind == "mcp_approval_request":
        return {"type": "mcp_approval_response", "approval_request_id": label, "approve": True}
    return {"type": f"{kind}_output", "call_id": label, "output": "done"}


SAID: list[Item] = [{"role": "user", "content": "hi"}, {"type": "reasoning", "id": "r1", "summary": []}]
MESSAGES = st.sampled_from(SAID)
LABELS = st.sampled_from(["c1", "c2"])
CONVERSATIONS = st.lists(
    st.one_of(
        MESSAGES, st.builds(call, st.sampled_from(KINDS), LABELS), st.builds(output, st.sampled_from(KINDS), LABELS)
    ),
    max_size=30,
)
TEXT = st.text('ab\u00e9\n\U0001f600\uffff"', max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
ITEMS = st.lists(st.dictionaries(TEXT, JSON, max_size=4), max_size=4)


# Pairing


@each("kind", KINDS)
def test_a_call_is_an_orphan_until_its_output_comes(kind: str) -> None:
    other = next(name for name in KINDS if name != kind)
    assert orphan_calls([call(kind, "c1")]) == [call(kind, "c1")]
    assert orphan_calls([call(kind, "c1"), output(kind, "c1")]) == []
    assert orphan_calls([call(kind, "c1"), output(kind, "c2"), output(other, "c1")]) == [call(kind, "c1")]
    assert orphan_outputs([call(kind, "c1"), output(kind, "c1"), output(kind, "c1")]) == [output(kind, "c1")]


def test_parallel_calls_may_be_answered_in_any_order() -> None:
    calls = [call("function_call", "c1"), call("shell_call", "c2"), call("function_call", "c3")]
    assert orphan_calls([*calls, output("function_call", "c3"), output("function_call", "c1")]) == [calls[1]]


def test_an_id_that_comes_again_in_a_later_turn_is_a_new_call() -> None:
    first, second = {**call("function_call", "c1"), "turn": 1}, {**call("function_call", "c1"), "turn": 2}
    assert orphan_calls([first, output("function_call", "c1"), second]) == [second]
    assert orphan_calls([first, second, output("function_call", "c1")]) == [second]


def test_an_output_never_settles_a_call_after_it() -> None:
    items = [output("function_call", "c1"), call("function_call", "c1")]
    assert orphan_calls(items) == [items[1]]
    assert orphan_outputs(items) == [items[0]]


def test_a_local_shells_output_may_name_its_call_under_id() -> None:
    named = {"type": "local_shell_call_output", "id": "c1", "output": "done"}
    assert orphan_calls([call("local_shell_call", "c1"), named]) == []


@pytest.mark.parametrize(
    "item", [{}, {"type": None}, {"type": ["function_call"]}, {"type": "web_search_call", "id": "w"}]
)
def test_what_is_no_call_of_ours_is_left_alone(item: Item) -> None:
    assert orphan_calls([item]) == orphan_outputs([item]) == []
    assert drop_leading_orphans([item]) == [item]


@given(CONVERSATIONS)
def test_every_output_settles_one_call_or_is_an_orphan(items: list[Item]) -> None:
    calls = [item for item in items if item.get("type") in KINDS]
    outputs = [item for item in items if str(item.get("type")).endswith(("_output", "_response"))]
    assert len(calls) - len(orphan_calls(items)) == len(outputs) - len(orphan_outputs(items))


@given(CONVERSATIONS, CONVERSATIONS)
def test_what_comes_later_settles_calls_and_never_makes_more_of_the_past_orphans(
    before: list[Item], after: list[Item]
) -> None:
    still_open = orphan_calls(before + after)
    assert [item for item in still_open if not _among(item, after)] == [
        item for item in orphan_calls(before) if _among(item, still_open)
    ]
    assert orphan_outputs(before + after)[: len(orphan_outputs(before))] == orphan_outputs(before)


def _among(item: Item, items: list[Item]) -> bool:
    return any(item is other for other in items)


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8), st.data())
def test_answered_turns_have_no_orphans_whatever_the_ids(kinds: list[str], data: st.DataObject) -> None:
    calls = [(kind, data.draw(LABELS)) for kind in kinds]
    answers = data.draw(st.permutations(calls))
    items = [call(*each) for each in calls] + [output(*each) for each in answers]
    assert orphan_calls(items * 2) == orphan_outputs(items * 2) == []


# Settling


@given(CONVERSATIONS)
def test_settling_every_orphan_call_leaves_none_and_adds_no_orphan_output(items: list[Item]) -> None:
    settled = items + [superseded_output(orphan, MOVED_ON) for orphan in orphan_calls(items)]
    assert orphan_calls(settled) == []
    assert orphan_outputs(settled) == orphan_outputs(items)


@each(
    ("kind", "expected"),
    [
        ("function_call", {"type": "function_call_output", "call_id": "c1", "output": MOVED_ON}),
        ("custom_tool_call", {"type": "custom_tool_call_output", "call_id": "c1", "output": MOVED_ON}),
        ("local_shell_call", {"type": "local_shell_call_output", "call_id": "c1", "output": MOVED_ON}),
        (
            "apply_patch_call",
            {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": MOVED_ON},
        ),
        (
            "shell_call",
            {
                "type": "shell_call_output",
                "call_id": "c1",
                "output": [{"stdout": "", "stderr": MOVED_ON, "outcome": {"type": "exit", "exit_code": 1}}],
            },
        ),
        (
            "computer_call",
            {
                "type": "computer_call_output",
                "call_id": "c1",
                "status": "incomplete",
                "output": {"type": "computer_screenshot", "image_url": BLANK_SCREENSHOT},
            },
        ),
        (
            "mcp_approval_request",
            {"type": "mcp_approval_response", "approval_request_id": "c1", "approve": False, "reason": MOVED_ON},
        ),
    ],
)
def test_an_orphan_is_settled_in_its_own_format(kind: str, expected: Item) -> None:
    assert superseded_output(call(kind, "c1"), MOVED_ON) == expected


def test_two_settlements_share_nothing() -> None:
    first, second = (superseded_output(call("shell_call", "c1"), MOVED_ON) for _ in range(2))
    first["output"].clear()
    assert second["output"]


def test_the_blank_screenshot_is_a_picture() -> None:
    picture = base64.b64decode(BLANK_SCREENSHOT.removeprefix("data:image/png;base64,"), validate=True)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture[16:24] == (16).to_bytes(4, "big") * 2


@pytest.mark.parametrize("item", [{}, {"role": "user"}, output("function_call", "c1"), {"type": "web_search_call"}])
def test_what_waits_for_no_output_cannot_be_settled(item: Item) -> None:
    with pytest.raises(UserError, match="not a call"):
        superseded_output(item, MOVED_ON)


# Windows


@given(CONVERSATIONS, st.integers(0, 30))
def test_a_window_has_no_output_without_its_call_and_loses_nothing_else(items: list[Item], cut: int) -> None:
    window = items[cut:]
    kept = drop_leading_orphans(window)
    assert orphan_outputs(kept) == []
    assert orphan_calls(kept) == orphan_calls(window)
    assert len(kept) == len(window) - len(orphan_outputs(window))
    assert [item for item in window if _among(item, kept)] == kept


def test_a_cut_between_parallel_calls_takes_the_output_behind_the_other_call() -> None:
    items = [call("function_call", "c1"), call("function_call", "c2")]
    items += [output("function_call", "c1"), output("function_call", "c2"), {"role": "assistant"}]
    assert drop_leading_orphans(items[1:]) == [items[1], items[3], items[4]]


# Addresses


@settings(max_examples=some(50))
@given(ITEMS)
def test_an_address_is_the_hash_of_the_lists_canonical_json(items: list[Item]) -> None:
    assert content_address(items) == hashlib.sha256(canonical(items).encode()).hexdigest()


@settings(max_examples=some(50))
@given(ITEMS)
def test_one_pass_gives_the_address_of_every_prefix(items: list[Item]) -> None:
    address, addresses = ContentAddress(), [ContentAddress().hex()]
    for item in items:
        address.add(item)
        addresses.append(address.hex())
    assert addresses == [content_address(items[:count]) for count in range(len(items) + 1)]
    assert address.count == len(items)


@settings(max_examples=some(50))
@given(ITEMS, ITEMS)
def test_other_items_have_another_address(items: list[Item], others: list[Item]) -> None:
    assert (content_address(items) == content_address(others)) == (canonical(items) == canonical(others))


@settings(max_examples=some(50))
@given(ITEMS)
def test_an_address_survives_a_json_store_and_the_order_of_keys(items: list[Item]) -> None:
    stored = json.loads(json.dumps(items))
    turned = [dict(reversed(item.items())) for item in items]
    assert content_address(items) == content_address(stored) == content_address(turned)


def test_an_address_takes_what_a_users_own_session_may_hold() -> None:
    odd: list[Item] = [OrderedDict(content=("a", "b")), {"content": "caf\udce9.txt"}]
    assert content_address(odd[:1]) == content_address([{"content": ["a", "b"]}])
    assert content_address(odd[1:]) != content_address([{"content": "caf?.txt"}])


def test_a_surrogate_pair_is_not_the_character_it_would_make() -> None:
    assert content_address([{"text": "\ud83d\ude00"}]) != content_address([{"text": "\U0001f600"}])


@pytest.mark.parametrize("value", [float("nan"), object(), {1: "a", "b": "c"}])
def test_an_item_without_json_is_refused_and_changes_nothing(value: object) -> None:
    address = ContentAddress()
    address.add({"role": "user"})
    before = address.hex()
    with pytest.raises(UserError, match="no JSON form"):
        address.add({"content": value})
    assert (address.count, address.hex()) == (1, before)
