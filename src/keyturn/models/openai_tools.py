"""What an agent may call, as OpenAI's two APIs are told of it, and which of it must be called.

Functions and handoffs are functions to the model. A tool that the provider runs says itself what it is, by
`provider_tool()` or a `tool_config`, in the words of the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from ..core.errors import UserError
from ..core.items import Item


@runtime_checkable
class ProviderTool(Protocol):
    """A tool that is offered in the provider's own words and not as a function.

    >>> class Weather:
    ...     def provider_tool(self):
    ...         return {"type": "web_search"}
    >>> isinstance(Weather(), ProviderTool)
    True
    """

    def provider_tool(self) -> Mapping[str, Any]: ...


def offered(tools: Iterable[Any], handoffs: Iterable[Any]) -> list[Item]:
    """Everything that may be called, as the Responses API is told of it."""
    return [_tool(tool) for tool in (*tools, *handoffs)]


def _tool(tool: Any) -> Item:
    if isinstance(tool, ProviderTool):
        return dict(tool.provider_tool())
    own: Any = getattr(tool, "tool_config", None)
    if isinstance(own, Mapping):
        return dict(cast("Mapping[str, Any]", own))
    schema = getattr(tool, "params_json_schema", None)
    if schema is None:
        raise UserError(
            f"the tool {getattr(tool, 'name', tool)!r} cannot be offered to an OpenAI model: it has neither a "
            "params_json_schema nor a provider_tool()"
        )
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema,
        "strict": tool.strict_json_schema,
    }


def chosen(choice: str | Mapping[str, Any] | None, tools: Iterable[Item]) -> Any:
    """`ModelSettings.tool_choice` as the Responses API has it: a mode, a function, or a tool that the provider runs.

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
    """A tool as Chat Completions is told of it."""
    kind = tool["type"]
    if kind not in ("function", "custom"):
        raise UserError(
            f"Chat Completions has no tool of type {kind!r}: only functions and custom tools run there; "
            "use OpenAIResponsesModel for tools that the provider runs"
        )
    return {"type": kind, kind: {name: value for name, value in tool.items() if name != "type" and value is not None}}


def as_chat_choice(choice: Any) -> Any:
    """A tool choice as Chat Completions has it."""
    if not isinstance(choice, dict):
        return choice
    given = cast("Item", choice)
    named = given.keys() == {"type", "name"}
    return {"type": given["type"], given["type"]: {"name": given["name"]}} if named else given
