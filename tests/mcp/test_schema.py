"""What is found to be wrong with arguments, and that no schema of a server's makes the looking long."""

from __future__ import annotations

import time
from typing import Any

from keyturn.support.json_schema import misfit
from tests.table import each

NODE: dict[str, Any] = {"$ref": "#/$defs/node"}
TREE = {"$defs": {"node": {"type": "object", "properties": {"next": NODE, "n": {"type": "integer"}}}}, **NODE}


@each(
    ("schema", "value", "problem"),
    [
        ({"type": "object", "required": ["a"]}, {}, "'a' is missing"),
        ({"properties": {"a": {"type": "string"}}}, {"a": 3}, "'a' must be of type string"),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": 3}, "'a' must be of type string or null"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": True}, "'a' must be of type integer"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1.5}, "'a' must be of type integer"),
        ({"properties": {"a": {"enum": ["x", 1]}}}, {"a": True}, "'a' is none of the values it may have"),
        ({"properties": {"a": {"const": 0}}}, {"a": False}, "'a' is none of the values it may have"),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"b": 1}, "'b' is not allowed"),
        ({"additionalProperties": {"type": "number"}}, {"b": "1"}, "'b' must be of type number"),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "'a[1]' must be of type string"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, {"a": 1}, "'a' is none of what"),
        ({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}, "'b' is missing"),
        (TREE, {"next": {"next": {"n": "x"}}}, "'next.next.n' must be of type integer"),
        ({"type": "object"}, [], "the whole must be of type object"),
    ],
)
def test_a_misfit_is_named(schema: Any, value: Any, problem: str) -> None:
    found = misfit(schema, value)
    assert found is not None
    assert found.startswith(problem)


@each(
    ("schema", "value"),
    [
        ({}, {"a": 1}),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 2.0, "b": None}),
        ({"properties": {"a": {"type": "number"}}}, {"a": 1}),
        ({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}}, {"a": 1}),
        ({"properties": {"a": {"type": "a type of tomorrow"}}}, {"a": 1}),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, {"x1": 1}),
        ({"properties": {"a": {"$ref": "https://example.com/schema.json"}}}, {"a": 1}),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, {"a": 1}),
        ({"required": "a", "properties": [], "anyOf": 3, "enum": {}}, {"a": 1}),
    ],
)
def test_what_fits_or_cannot_be_read_passes(schema: Any, value: Any) -> None:
    assert misfit(schema, value) is None


def test_a_hostile_schema_takes_no_time() -> None:
    circle = {"$ref": "#"}
    wide: dict[str, Any] = {"type": "object"}
    for _ in range(12):
        wide = {"anyOf": [{**wide, "required": ["x"]}] * 12}
    slow = {"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    began = time.monotonic()
    for schema in (circle, wide, slow):
        misfit(schema, {"a": "a" * 200 + "!"})
    assert time.monotonic() - began < 2
