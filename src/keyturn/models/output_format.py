"""What members share in asking for an answer of a type: which schemas a provider can hold a model to, and the words.

Nothing here asks, and no wire format is known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast


def joined(texts: Iterable[str | None]) -> str:
    """All instructions as one text.

    >>> joined(["Be brief.", None, " "])
    'Be brief.'
    """
    return "\n\n".join(text for text in texts if text and text.strip())


def schema_instruction(schema: Mapping[str, Any]) -> str:
    """How a model is asked for JSON where its provider cannot hold it to the schema."""
    return f"Answer with one JSON object that fits this schema, and with nothing else:\n{json.dumps(schema)}"


def open_schema(schema: Any) -> bool:
    """Whether an object in the schema may have keys that the schema does not name, or a value may be anything.

    >>> open_schema({"type": "object", "properties": {}, "additionalProperties": False}), open_schema({})
    (False, True)
    """
    if not isinstance(schema, Mapping):
        return schema is not False
    here = cast("Mapping[str, Any]", schema)
    if here.get("type") == "object" and here.get("additionalProperties", "properties" not in here) is not False:
        return True
    if not here.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}:
        return True
    inner = [here["items"]] if "items" in here else []
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner += cast("list[Any]", here.get(name) or [])
    for name in ("properties", "$defs"):
        inner += cast("Mapping[str, Any]", here.get(name) or {}).values()
    return any(open_schema(each) for each in inner)
