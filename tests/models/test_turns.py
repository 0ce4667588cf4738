"""A conversation as turns: each call beside its result, whatever order a log, a session or a filter gave them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.models.scripted.items import assistant_message, function_call, reasoning
from keyturn.models.turns import data_url, file_data, own_parts, parts_of, split, text_of, with_own
from tests.table import each


def output(label: str, said: str = "x") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": label, "output": said}


USER = {"role": "user", "content": "q"}


def shape(items: list[Any]) -> list[tuple[str, int]]:
    return [(turn.role, len(turn.items)) for turn in split(items, "x")[1]]


@each("order", [*permutations([output("a"), output("b"), USER])])
def test_results_find_their_calls_in_any_order(order: Any) -> None:
    _, turns = split([USER, function_call("f", call_id="a"), function_call("f", call_id="b"), *order], "x")
    assert [(turn.role, len(turn.items)) for turn in turns] == [("user", 1), ("assistant", 2), ("user", 1)]
    assert [call.result["call_id"] for call in turns[1].calls if call.result] == ["a", "b"]


def test_what_follows_a_result_is_another_turn() -> None:
    items = [
        USER,
        function_call("f", call_id="a"),
        output("a"),
        assistant_message("So."),
        function_call("f", call_id="b"),
    ]
    assert shape(items) == [("user", 1), ("assistant", 1), ("assistant", 2)]


def test_a_label_used_again_takes_the_next_result() -> None:
    calls = [function_call("f", call_id="a"), output("a", "1"), function_call("f", call_id="a"), output("a", "2")]
    turns = split([USER, *calls, output("a", "3")], "x")[1]
    assert [call.result["output"] for turn in turns for call in turn.calls if call.result] == ["1", "2"]


def test_thoughts_stay_where_they_were() -> None:
    items = [USER, reasoning("1"), assistant_message("a"), reasoning("2"), function_call("f", call_id="a")]
    [_, turn] = split(items, "x")[1]
    assert len(turn.items) == 4
    assert turn.items[2] is items[3]


def test_items_of_others_that_nobody_else_can_read_are_left_out() -> None:
    items = [USER, {"type": "mcp_list_tools", "tools": []}, {"type": "web_search_call", "id": "ws"}]
    assert shape(items) == [("user", 1)]
    mine = with_own({"type": "drawing"}, "x", {"ink": 1})
    assert shape([*items, mine]) == [("user", 1), ("assistant", 1)]
    assert split([mine], "y")[1] == []


def test_what_a_message_keeps_belongs_to_its_parts_while_they_are_the_same() -> None:
    message = with_own(assistant_message("a"), "x", {"parts": [{"signature": "s"}]})
    assert own_parts(message, "x") == [(message["content"][0], {"signature": "s"})]
    assert own_parts({**message, "content": "a"}, "x")[0][1] == {"signature": "s"}
    assert own_parts({**message, "content": []}, "x") == []
    assert own_parts({**message, "content": [*message["content"]] * 2}, "x")[1][1] == {}


def test_contents_of_every_form() -> None:
    assert (text_of("a"), text_of(None), text_of([{"text": "a"}, {"type": "x"}, "b"])) == ("a", "", "ab")
    assert parts_of(None) == []
    assert parts_of({"a": 1}) == [{"type": "input_text", "text": '{"a": 1}'}]


def test_data_of_every_form() -> None:
    assert data_url("data:image/png;charset=x;base64,aGk=") == ("image/png", "aGk=")
    assert data_url("data:;base64,aGk=") == ("application/octet-stream", "aGk=")
    assert file_data({"file_data": "aGk=", "filename": "a.csv"}) == ("text/csv", "aGk=")
    assert file_data({"file_data": "aGk="}) == ("application/pdf", "aGk=")
    assert file_data({"file_id": "f"}) is None
    with pytest.raises(UserError, match="base64"):
        data_url("data:text/plain,hi")
