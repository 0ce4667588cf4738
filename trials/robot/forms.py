"""Values made of a JSON schema, for a robot that fills in forms: the same schema and text give the same value.

Only what schemas of tools and answers use is read. Here is no model and no wire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

Schema = Mapping[str, Any]

_FORMATS = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "time": "03:04:05",
    "email": "ann@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000001",
}
_DEEPEST = 8


class FormFiller:
    """Makes values of schemas; a yes or no alternates for each field, and begins with yes."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def value(self, schema: Schema, text: str) -> Any:
        """Make a value; a text field gets `text`, unless the schema says what it may be."""
        return self._value(schema, "", text, cast("Schema", schema.get("$defs") or {}), 0)

    def _value(self, schema: Schema, name: str, text: str, defs: Schema, depth: int) -> Any:
        schema = _resolved(schema, defs)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        if schema.get("enum"):
            return schema["enum"][0]
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((each for each in cast("list[str]", kind) if each != "null"), "null")
        if kind == "object" or "properties" in schema:
            return self._object(schema, name, text, defs, depth)
        if kind == "array":
            count = 0 if depth > _DEEPEST else max(1, schema.get("minItems", 1))
            items = cast("Schema", schema.get("items") or {})
            return [self._value(items, name, text, defs, depth + 1) for _ in range(count)]
        return self._plain(kind, schema, name, text)

    def _object(self, schema: Schema, name: str, text: str, defs: Schema, depth: int) -> Any:
        fields = cast("Mapping[str, Schema]", schema.get("properties") or {})
        asked = schema.get("required", list(fields))
        rest = schema.get("additionalProperties")
        if not fields and isinstance(rest, dict):  # any keys: one of them
            return {"1": self._value(cast("Schema", rest), name, text, defs, depth + 1)}
        return {each: self._value(fields[each], each, text, defs, depth + 1) for each in asked if each in fields}

    def _plain(self, kind: Any, schema: Schema, name: str, text: str) -> Any:
        if kind == "boolean":
            self._asked[name] += 1
            return self._asked[name] % 2 == 1
        if kind in ("integer", "number"):
            least, most = schema.get("minimum", 2), schema.get("maximum", 2)
            return min(max(2, least), max(most, least))
        if kind == "null":
            return None
        said = _FORMATS.get(schema.get("format", ""), text)
        return said[: schema.get("maxLength", 200)].ljust(schema.get("minLength", 0), ".")


def _resolved(schema: Schema, defs: Schema) -> Schema:
    for _ in range(_DEEPEST):
        if "$ref" in schema:
            schema = {**defs.get(schema["$ref"].rpartition("/")[2], {}), **_without(schema, "$ref")}
        elif key := next((key for key in ("anyOf", "oneOf", "allOf") if schema.get(key)), None):
            choices = cast("list[Schema]", schema[key])
            chosen = next((each for each in choices if each.get("type") != "null"), choices[0])
            schema = {**_without(schema, key), **chosen}
        else:
            break
    return schema


def _without(schema: Schema, name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != name}
