"""What prints, in what order, and what may differ; the types that are refused are in test_parameters.py."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, model_serializer
from typing_extensions import TypedDict

from keyturn.tools.functions.roundtrip import agree_where_given, in_order
from tests.table import each


class Tags(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    tags: frozenset[str]


@dataclass
class Data:
    tags: set[int]
    more: list[set[int]] = field(default_factory=list)


class Keyed(TypedDict):
    tags: set[str]


class Pair(NamedTuple):
    left: set[int]
    right: int


class Opaque(BaseModel):
    tags: set[int]

    @model_serializer
    def text(self) -> str:
        return "opaque"


# Numbers that hash to one bucket come out of a set in the order in which they went in.
CLASH = [8, 16, 0]


@each(
    ("shape", "text", "printed"),
    [
        (set[int], "[8,16,0]", [0, 16, 8]),
        (frozenset[str], '["b","a","c"]', ["a", "b", "c"]),
        (list[set[int]], "[[8,16,0],[2,1]]", [[0, 16, 8], [1, 2]]),
        (tuple[set[int], int], "[[8,16,0],5]", [[0, 16, 8], 5]),
        (deque[set[int]], "[[8,16,0]]", [[0, 16, 8]]),
        (dict[int, set[int]], '{"1":[8,16,0]}', {"1": [0, 16, 8]}),
        (set[frozenset[int]], "[[8,16,0],[2,1]]", [[0, 16, 8], [1, 2]]),
        (Tags, '{"name":"n","tags":["b","a"],"x":[3,1]}', {"name": "n", "tags": ["a", "b"], "x": [3, 1]}),
        (Data, '{"tags":[8,16,0],"more":[[8,16,0]]}', {"tags": [0, 16, 8], "more": [[0, 16, 8]]}),
        (Keyed, '{"tags":["b","a"]}', {"tags": ["a", "b"]}),
        (Pair, "[[8,16,0],1]", [[0, 16, 8], 1]),
        (Opaque, '{"tags":[1]}', "opaque"),
        (set[int] | list[str], '["b","a"]', ["b", "a"]),
        (set[tuple[int, str]], '[[2,"a"],[1,"b"]]', [[1, "b"], [2, "a"]]),
    ],
)
def test_sets_print_in_order_and_nothing_else_is_sorted(shape: Any, text: str, printed: Any) -> None:
    adapter: Any = TypeAdapter(shape)
    value = adapter.validate_json(text)
    assert in_order(value, adapter.dump_python(value, mode="json")) == printed


def test_the_order_of_arrival_does_not_show() -> None:
    one, other = set(CLASH), {0, 16, 8}
    assert one == other
    assert list(one) != list(other)
    assert in_order(one, list(one)) == in_order(other, list(other))


@each(
    ("given", "first", "second"),
    [
        ({}, {"x": 0}, {"x": "0"}),
        ({"x": 1}, {"x": 1, "y": 0}, {"x": 1, "y": 0.0}),
        ({"m": {}}, {"m": {"y": 0}}, {"m": {"y": "0"}}),
        ({"l": [{}, {}]}, {"l": [{"y": 0}, {"y": 0}]}, {"l": [{"y": "0"}, {"y": "0"}]}),
        ({"unknown": 1}, {"x": 1}, {"x": 1}),
        ({"x": [1]}, {"x": [1, 2]}, {"x": [1, 2]}),
    ],
)
def test_defaults_may_take_form(given: Any, first: Any, second: Any) -> None:
    assert agree_where_given(given, first, second)


@each(
    ("given", "first", "second"),
    [
        ({"x": 1}, {"x": 2}, {"x": 3}),
        ({"x": 1}, {"x": 1}, {"x": 1.0}),
        ({"x": 1}, {"x": 1}, {"x": True}),
        ({"x": 1}, {"x": 1}, {}),
        ({"m": {"y": 1}}, {"m": {"y": 2}}, {"m": {"y": 3}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": [1, 2, 3]}),
        ({"l": [1]}, {"l": [2]}, {"l": [3]}),
        ({"x": {}}, {"x": {}}, {"x": []}),
    ],
)
def test_what_was_given_may_not_move(given: Any, first: Any, second: Any) -> None:
    assert not agree_where_given(given, first, second)
