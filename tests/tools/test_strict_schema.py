"""Schemas in, strict schemas out."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.errors import UserError
from keyturn.tools.strict_schema import ensure_strict_json_schema
from tests.table import each

OPEN = {"type": "object", "additionalProperties": {"type": "integer"}}
LEAF = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(properties),
    }


def test_nothing_becomes_the_empty_object() -> None:
    assert ensure_strict_json_schema({}) == closed()
    assert ensure_strict_json_schema({"type": "object"}) == closed()


def test_every_object_is_closed_and_every_property_required() -> None:
    inner = {"type": "object", "properties": {"b": LEAF}}
    schema = {"type": "object", "properties": {"a": inner, "l": {"type": "array", "items": inner}, "c": LEAF}}
    assert ensure_strict_json_schema(schema) == closed(
        a=closed(b=LEAF), l={"type": "array", "items": closed(b=LEAF)}, c=LEAF
    )


def test_the_schema_given_is_left_alone() -> None:
    schema = {"type": "object", "properties": {"a": {"oneOf": [LEAF], "default": None}}}
    before = copy.deepcopy(schema)
    ensure_strict_json_schema(schema)
    assert schema == before


def test_only_a_default_of_null_goes() -> None:
    schema = {"type": "object", "properties": {"a": {**LEAF, "default": None}, "b": {**LEAF, "default": "x"}}}
    assert ensure_strict_json_schema(schema)["properties"] == {"a": LEAF, "b": {**LEAF, "default": "x"}}


def test_a_property_may_be_called_default() -> None:
    schema = {"type": "object", "properties": {"default": LEAF, "$ref": LEAF, "items": LEAF}}
    assert ensure_strict_json_schema(schema)["required"] == ["default", "$ref", "items"]


def test_unions_are_walked_and_one_of_becomes_any_of() -> None:
    part = {"type": "object", "properties": {"b": LEAF}}
    schema = {
        "type": "object",
        "properties": {
            "a": {"anyOf": [part, {"type": "null"}]},
            "o": {"oneOf": [part, part], "discriminator": {"propertyName": "b", "mapping": {}}},
        },
    }
    assert ensure_strict_json_schema(schema)["properties"] == {
        "a": {"anyOf": [closed(b=LEAF), {"type": "null"}]},
        "o": {"anyOf": [closed(b=LEAF), closed(b=LEAF)]},
    }


def test_an_all_of_with_one_entry_is_merged() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}], "description": "mine", "title": "Mine"}},
        "$defs": {"A": {"type": "object", "title": "A", "properties": {"b": LEAF}}},
    }
    made = ensure_strict_json_schema(schema)
    assert made["properties"]["a"] == closed(b=LEAF) | {"description": "mine", "title": "Mine"}


def test_an_all_of_with_more_entries_is_walked() -> None:
    part = {"type": "object", "properties": {"b": LEAF}}
    made = ensure_strict_json_schema({"type": "object", "properties": {"a": {"allOf": [part, part]}}})
    assert made["properties"]["a"] == {"allOf": [closed(b=LEAF), closed(b=LEAF)]}


def test_a_reference_alone_stays_and_one_with_siblings_is_inlined() -> None:
    schema = {
        "type": "object",
        "properties": {
            "alone": {"$ref": "#/$defs/A"},
            "null": {"$ref": "#/$defs/A", "default": None},
            "described": {"$ref": "#/$defs/A", "description": "mine"},
        },
        "$defs": {"A": {"type": "object", "description": "its", "properties": {"b": LEAF}}},
    }
    made = ensure_strict_json_schema(schema)
    target = closed(b=LEAF) | {"description": "its"}
    assert made["$defs"] == {"A": target}
    assert made["properties"] == {
        "alone": {"$ref": "#/$defs/A"},
        "null": {"$ref": "#/$defs/A"},
        "described": target | {"description": "mine"},
    }


def test_a_recursive_type_is_inlined_once() -> None:
    child = {"$ref": "#/$defs/Node", "description": "the left one"}
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"left": child}}}}
    made = ensure_strict_json_schema(schema)
    pure = {"$ref": "#/$defs/Node"}
    described = closed(left=pure) | {"description": "the left one"}
    assert made["$defs"]["Node"] == closed(left=described)
    assert made["properties"] == {"left": pure}


def test_chains_of_references_are_followed_and_rings_end() -> None:
    definitions = {
        "A": {"$ref": "#/$defs/B", "description": "a"},
        "B": {"$ref": "#/$defs/C~1D"},
        "C/D": LEAF,
        "X": {"$ref": "#/$defs/Y", "title": "x"},
        "Y": {"$ref": "#/$defs/X", "title": "y"},
    }
    properties = {"a": {"$ref": "#/$defs/A"}, "x": {"$ref": "#/$defs/X", "title": "mine"}}
    made = ensure_strict_json_schema({"type": "object", "properties": properties, "$defs": definitions})
    assert made["$defs"]["A"] == LEAF | {"description": "a"}
    assert "$ref" in made["properties"]["x"]


def test_deep_inlining_takes_linear_time() -> None:
    definitions = {
        f"T{n}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/T{n + 1}", "description": "d"}}}
        for n in range(60)
    }
    schema = {"$ref": "#/$defs/T0", "$defs": {**definitions, "T60": LEAF}}
    assert ensure_strict_json_schema(schema)["type"] == "object"


@each(
    "value",
    [
        OPEN,
        {"type": "object", "additionalProperties": True},
        {"type": ["object", "null"], "additionalProperties": {}},
        {"type": "object"},
        {"type": "object", "properties": {}, "patternProperties": {"^x": LEAF}},
        {"anyOf": [OPEN, {"type": "null"}]},
        {"type": "array", "items": OPEN},
        {"type": "array", "prefixItems": [LEAF, OPEN]},
        {"$ref": "#/$defs/Open"},
        {"$ref": "#/$defs/Open", "description": "d"},
    ],
)
def test_an_open_object_is_refused_with_its_place_and_the_remedy(value: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"tags": value}, "$defs": {"Open": OPEN}}
    with pytest.raises(UserError, match=r"parameter 'tags' takes any keys.*strict_mode=False"):
        ensure_strict_json_schema(schema)


def test_the_place_is_a_path_through_references() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "object", "properties": {"b": OPEN}}},
    }
    with pytest.raises(UserError, match=r"parameter 'a\.b'"):
        ensure_strict_json_schema(schema)


@pytest.mark.each
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"anyOf": [LEAF], "oneOf": [LEAF]}, "both anyOf and oneOf"),
        ({"$ref": "#/$defs/None"}, "not in its schema"),
        ({"$ref": "https://example.com/schema"}, "not in its schema"),
        ({"type": "string", "minLength": 1, "allOf": [{"minLength": 2}]}, "narrows 'minLength' twice"),
    ],
)
def test_what_strict_cannot_say_is_refused(value: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ensure_strict_json_schema({"type": "object", "properties": {"x": value}})


def test_boolean_schemas_pass() -> None:
    schema = {"type": "object", "properties": {"any": True}}
    assert ensure_strict_json_schema(schema)["properties"] == {"any": True}


SCHEMAS = st.recursive(
    st.sampled_from([LEAF, {"type": "integer", "default": None}, {"$ref": "#/$defs/D"}, {"type": "null"}]),
    lambda inner: st.one_of(
        st.builds(lambda each: {"type": "array", "items": each}, inner),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"allOf": [part]}, inner),
        st.builds(lambda part, said: {**part, "description": said}, inner, st.just("said")),
        st.builds(
            lambda parts: {"type": "object", "properties": parts},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_strict_is_strict_already(value: dict[str, Any]) -> None:
    definition = {"type": "object", "properties": {"self": {"$ref": "#/$defs/D", "description": "again"}}}
    made = ensure_strict_json_schema({"type": "object", "properties": {"v": value}, "$defs": {"D": definition}})
    assert ensure_strict_json_schema(made) == made
