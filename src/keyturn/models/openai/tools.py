"""Convert tools, handoffs and the tool choice to OpenAI's two APIs.

Functions and handoffs are functions to the model. A tool that the provider runs says itself what it is, by
`provider_tool()` or a `tool_config`, in the words of the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item
from ..request_parts import function_of, own_words


def offered(tools: Iterable[Any], handoffs: Iterable[Any]) -> list[Item]:
    """Convert everything that may be called to the Responses API."""
    return [_tool(tool) for tool in (*tools, *handoffs)]


def offered_in_chat(tools: Iterable[Any], handoffs: Iterable[Any], *, openais: bool) -> list[Item]:
    """Convert it to Chat Completions, whose custom tools no server but OpenAI's own (`openais`) may know.

    What has calls of its own in the other API is a function here, where it can be one.
    """
    return [_chat_tool(tool, openais) for tool in (*tools, *handoffs)]


def _chat_tool(tool: object, openais: bool) -> Item:
    own = own_words(tool)
    if own is None:
        return _tool(tool)
    fits = own.get("type") in ("function", "custom") and (openais or own["type"] == "function")
    return _function(tool) if getattr(tool, "also_function", False) and not fits else own


def _tool(tool: object) -> Item:
    return own_words(tool) or _function(tool)


def _function(tool: object) -> Item:
    strict: bool = getattr(tool, "strict_json_schema", False)
    return {"type": "function", **function_of(tool, "an OpenAI model"), "strict": strict}


def chosen(choice: str | Mapping[str, Any] | None, tools: Iterable[Item]) -> Any:
    """Convert `ModelSettings.tool_choice` to the Responses API: a mode, a function, or a tool that the provider runs.

    >>> chosen("pay", [{"type": "function", "name": "pay"}]), chosen("web_search", [{"type": "web_search"}])
    ({'type': 'function', 'name': 'pay'}, {'type': 'web_search'})
    """
    if not isinstance(choice, str) or choice in ("auto", "required", "none"):
        return choice if choice is None or isinstance(choice, str) else dict(choice)
    for tool in tools:
        if choice in (tool.get("name"), tool.get("server_label")) or (choice == tool["type"] and "name" not in tool):
            # What an API must be told of a chosen tool besides its type, where the tool has it.
            return {field: tool[field] for field in ("type", "name", "server_label") if field in tool}
    return {"type": "function", "name": choice}


def as_chat_tool(tool: Item) -> Item:
    """Convert a tool to Chat Completions."""
    kind = tool["type"]
    if kind not in ("function", "custom"):
        raise UserError(
            f"Chat Completions has no tool of type {kind!r}: only functions and custom tools run there; "
            "use OpenAIResponsesModel for tools that the provider runs"
        )
    fields = {name: value for name, value in tool.items() if name != "type" and value is not None}
    form: Any = fields.get("format")
    if isinstance(form, dict) and "definition" in form:  # here a grammar's own fields stand one deeper
        inner = {name: value for name, value in cast("Item", form).items() if name != "type"}
        fields["format"] = {"type": form["type"], "grammar": inner}
    return {"type": kind, kind: fields}


def as_chat_choice(choice: object) -> Any:
    """Convert a tool choice to Chat Completions."""
    if not isinstance(choice, dict):
        return choice
    given = cast("Item", choice)
    named = given.keys() == {"type", "name"}
    return {"type": given["type"], given["type"]: {"name": given["name"]}} if named else given
