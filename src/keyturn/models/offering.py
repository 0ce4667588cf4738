"""How a tool is offered to a model that is not OpenAI's Responses API: as a function, in its provider's words, or not.

A kind of tool with calls of its own says in the words of that API what it is. Other APIs are told of it as a function
where it can be one; where it cannot, that is an error and not a tool left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.errors import UserError
from ..core.items import Item


def own_words(tool: Any) -> Item | None:
    """What a tool says of itself, in whichever provider's words; None where it is a function and no more.

    >>> own_words(object()) is None
    True
    """
    say = getattr(tool, "provider_tool", None)
    if say is not None:
        return dict(say())
    config: Any = getattr(tool, "tool_config", None)
    return dict(cast("Mapping[str, Any]", config)) if isinstance(config, Mapping) else None


def words_for(tool: Any, whose: str) -> Item | None:
    """The same for a provider that is not OpenAI; None where the tool is to be a function."""
    said = own_words(tool)
    if said is None or getattr(tool, "also_function", False):
        return None
    if _is_openais(tool):
        raise UserError(
            f"the tool {getattr(tool, 'name', tool)!r} ({said.get('type')}) is one of OpenAI's Responses API and "
            f"cannot be offered to {whose}: use OpenAIResponsesModel for this agent, or leave the tool out"
        )
    return said


def _is_openais(tool: Any) -> bool:
    """Whether its words are those of the Responses API: it says so, or its calls or its shape are of that API."""
    calls: str = getattr(tool, "call_type", "function_call")
    return bool(getattr(tool, "provider", None)) or calls != "function_call" or not hasattr(tool, "provider_tool")


def function_of(tool: Any, whose: str) -> Item:
    """A tool as a function: its name, description and the schema of its parameters."""
    schema = getattr(tool, "params_json_schema", None)
    if schema is None:
        raise UserError(
            f"the tool {getattr(tool, 'name', tool)!r} cannot be offered to {whose}: it has neither a "
            "params_json_schema nor a provider_tool()"
        )
    return {"name": tool.name, "description": tool.description or "", "parameters": schema}
