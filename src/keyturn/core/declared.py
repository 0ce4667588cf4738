"""Read what a JSON schema that others wrote declares of arguments; what cannot be read declares nothing.

A schema comes from a server, a log or a file: `true` may stand where an object is expected, and a number anywhere.
"""

from __future__ import annotations

from typing import Any

from .values import as_list, as_object


def properties_of(schema: object) -> dict[str, Any]:
    """Return the properties that a schema declares.

    >>> properties_of({"properties": {"a": True}}), properties_of({"properties": 5}), properties_of(None)
    ({'a': True}, {}, {})
    """
    return as_object(as_object(schema).get("properties"))


def property_of(schema: object, name: str) -> dict[str, Any]:
    """Return what a schema declares of one argument.

    >>> property_of({"properties": {"a": {"type": "string"}, "b": True}}, "a")
    {'type': 'string'}
    """
    return as_object(properties_of(schema).get(name))


def takes_text(schema: dict[str, Any]) -> bool:
    """Return whether a schema declares that a text is valid.

    >>> takes_text({"type": "string"}), takes_text({"anyOf": [{"type": ["null", "string"]}]}), takes_text({"type": 5})
    (True, True, False)
    """
    declared = [schema, *map(as_object, as_list(schema.get("anyOf")))]
    return any("string" in (each.get("type"), *as_list(each.get("type"))) for each in declared)


def takes_texts(schema: dict[str, Any]) -> bool:
    """Return whether a schema declares that a list of texts is valid.

    >>> takes_texts({"type": "array", "items": {"type": "string"}}), takes_texts({"type": "array"})
    (True, False)
    >>> takes_texts({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    True
    """
    declared = [schema, *map(as_object, as_list(schema.get("anyOf")))]
    return any(as_object(each.get("items")).get("type") == "string" for each in declared)
