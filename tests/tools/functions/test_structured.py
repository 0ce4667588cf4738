"""One object of a user's type: what is shown is what the object is made of, however the model wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

from keyturn.core.digest import canonical
from keyturn.core.errors import UserError
from keyturn.tools.base import InvalidArguments
from keyturn.tools.functions.structured import StructuredInput, any_object
from tests.table import each


@dataclass
class Point:
    x: int
    y: int = 0


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Wish(TypedDict):
    what: str


POINT = StructuredInput("go", Point)


def test_the_three_kinds_of_type() -> None:
    assert POINT.json_schema["required"] == ["x", "y"]
    assert "$defs" not in POINT.json_schema
    assert StructuredInput("go", Wish).json_schema["properties"].keys() == {"what"}
    tree = StructuredInput("go", Tree)
    assert tree.json_schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert tree.json_schema["$defs"].keys() == {"Tree"}
    text = '{"name":"a","children":[{"name":"b","children":[]}]}'
    assert tree.value(tree.freeze(text).text) == Tree(name="a", children=[Tree(name="b")])


@pytest.mark.parametrize("kind", [str, int, list[int], dict[str, int], Point | Tree])
def test_other_types_are_refused(kind: Any) -> None:
    with pytest.raises(UserError, match="tool 'go'"):
        StructuredInput("go", kind)


def test_what_cannot_be_shown_is_refused() -> None:
    class Login(BaseModel):
        password: SecretStr

    with pytest.raises(UserError, match="asterisks"):
        StructuredInput("go", Login)


@each(
    "text", ["", "{}", "null", "[1]", '{"x": "a"}', '{"x": 1, "z": 2}', '{"x": 1}, "input": {"x": 2}', '{"x":1}}', "{"]
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match="The arguments of go are invalid"):
        POINT.freeze(text)


@given(st.fixed_dictionaries({"x": st.integers()}, optional={"y": st.integers()}))
def test_what_is_shown_is_what_the_object_holds(arguments: dict[str, int]) -> None:
    text = canonical(arguments)
    frozen = POINT.freeze(text)
    point = POINT.value(frozen.text)
    assert frozen.params == {"x": point.x, "y": point.y}
    assert (frozen.text == text) == ("y" in arguments)
    assert POINT.freeze(frozen.text).params == frozen.params


def test_any_object_is_kept_as_it_was_written() -> None:
    assert any_object("echo", ' {"a": 1.0}').text == ' {"a": 1.0}'
    assert any_object("echo", "") == any_object("echo", "{}")
