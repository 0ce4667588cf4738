"""Parts of a request that providers share: tools offered as functions, instructions joined, output schemas checked.

A kind of tool with calls of its own says in the words of OpenAI's Responses API what it is. Other APIs are given a
function where the tool can be one; where it cannot, that is an error and not a tool left out. Nothing here sends a
request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..core.errors import UserError
from ..core.items import Item
from ..core.values import as_list, as_object


def own_words(tool: object) -> Item | None:
    """Return a tool's own definition, in whichever provider's format; None where it is only a function.

    >>> own_words(object()) is None
    True
    """
    say = getattr(tool, "provider_tool", None)
    if say is not None:
        return dict(say())
    config: Any = getattr(tool, "tool_config", None)
    return dict(cast("Mapping[str, Any]", config)) if isinstance(config, Mapping) else None


def words_for(tool: object, whose: str) -> Item | None:
    """Return a tool's own definition for a provider that is not OpenAI; None where the tool is to be a function."""
    said = own_words(tool)
    if said is None or getattr(tool, "also_function", False):
        return None
    if _is_openais(tool):
        raise UserError(
            f"the tool {getattr(tool, 'name', tool)!r} ({said.get('type')}) is one of OpenAI's Responses API and "
            f"cannot be offered to {whose}: use OpenAIResponsesModel for this agent, or leave the tool out"
        )
    return said


def _is_openais(tool: object) -> bool:
    """Return whether the definition is in the format of the Responses API, by its own word, its calls or its shape."""
    calls: str = getattr(tool, "call_type", "function_call")
    return bool(getattr(tool, "provider", None)) or calls != "function_call" or not hasattr(tool, "provider_tool")


def function_of(tool: Any, whose: str) -> Item:
    """Return a tool as a function: its name, description and the schema of its parameters."""
    schema = getattr(tool, "params_json_schema", None)
    if schema is None:
        raise UserError(
            f"the tool {getattr(tool, 'name', tool)!r} cannot be offered to {whose}: it has neither a "
            "params_json_schema nor a provider_tool()"
        )
    return {"name": tool.name, "description": tool.description or "", "parameters": schema}


def joined(texts: Iterable[str | None]) -> str:
    """Join all instructions to one text.

    >>> joined(["Be brief.", None, " "])
    'Be brief.'
    """
    return "\n\n".join(text for text in texts if text and text.strip())


def schema_instruction(schema: Mapping[str, Any]) -> str:
    """Return the instruction that asks for JSON where the provider cannot enforce the schema."""
    return f"Answer with one JSON object that fits this schema, and with nothing else:\n{json.dumps(schema)}"


def open_schema(schema: object) -> bool:
    """Return whether the schema allows keys that it does not name, or a value that may be anything.

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
        inner += as_list(here.get(name))
    for name in ("properties", "$defs"):
        inner += as_object(here.get(name)).values()
    return any(open_schema(each) for each in inner)
