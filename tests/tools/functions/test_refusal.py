"""What a refusal says, and what it must never say."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from keyturn.core.errors import BadJson
from keyturn.tools.functions.refusal import cause, complaints


class Item(TypedDict):
    name: str
    price: float


class Order(TypedDict):
    items: list[Item]


def error(text: str, shape: Any = Order, **options: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(shape).validate_json(text, **options)
    return caught.value


def test_each_place_and_what_is_expected_there() -> None:
    said = complaints(error('{"items": [{"name": 1, "price": "x"}, {"price": 1}]}'))
    assert said.split("; ") == [
        "items[0].name: Input should be a valid string, not an integer",
        "items[0].price: Input should be a valid number, unable to parse string as a number",
        "items[1].name: a value is required",
    ]


def test_no_link_no_stack_no_input() -> None:
    said = complaints(error('{"items": [{"name": ["hunter2"], "price": 1}]}'))
    assert "hunter2" not in said
    assert "http" not in said
    assert "\n" not in said


def test_what_does_not_exist_is_told_with_what_does() -> None:
    unknown = error('{"items": [], "x": 1}', extra="forbid")
    assert complaints(unknown, ["items"]) == "x: there is no such field, only items"
    assert complaints(unknown) == "x: there is no such field, and none is needed"
    nested = error('{"items": [{"name": "a", "price": 1, "x": 1}]}', extra="forbid")
    assert complaints(nested, ["items"]) == "items[0].x: there is no such field"


def test_many_complaints_are_cut() -> None:
    said = complaints(error('{"items": [' + ",".join(["1"] * 50) + "]}"))
    assert said.count("; ") == 8
    assert said.endswith("and 42 more")


def test_long_complaints_are_cut() -> None:
    assert len(complaints(error('{"items": [], "' + "x" * 5000 + '": 1}', extra="forbid"))) == 300


def test_other_errors_keep_their_words_to_themselves() -> None:
    crash = KeyError("password=hunter2")
    assert complaints(crash) == "the check itself failed (KeyError)"
    assert cause(crash) is crash


def test_refusals_have_no_cause_to_log() -> None:
    assert cause(error("{}")) is None
    assert cause(BadJson("empty")) is None
    assert complaints(BadJson("empty")) == "not strict JSON: empty"
