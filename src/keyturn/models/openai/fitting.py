"""Fit a request to a server that falls short of the Chat Completions API, as its row of the providers says.

What is left out or asked for in another way changes nothing of what a call means: arguments and output are checked
here whatever the server promised. What would change it is an error before the request.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item
from ..base import ModelRequest, ModelSettings
from ..providers import NamedProvider
from ..request_parts import joined, schema_instruction

_LOG = logging.getLogger("keyturn.models")
_told: set[tuple[str, str]] = set()
_ID_LENGTH = 9


def fitted(request: ModelRequest, provider: NamedProvider, *, streamed: bool) -> ModelRequest:
    """Return the request with what the provider does not take left out, or asked for in another way."""
    lacks = provider.lacks
    request = _settings(request, provider)
    if lacks.forced:
        request = _choice(request, provider)
    if _schema_in_words(request, provider, streamed):
        _tell(provider, "enforces no output type here: it is asked for in words, and the answer is checked")
        asked = schema_instruction(request.output_schema.json_schema())
        instructions = joined([request.system_instructions, asked])
        request = replace(request, system_instructions=instructions, output_schema=None)
    if lacks.thoughts and any(item.get("type") == "reasoning" for item in request.input):
        _tell(provider, "takes no thoughts back: they are left out of what is sent")
        request = replace(request, input=[item for item in request.input if item.get("type") != "reasoning"])
    if lacks.call_ids:
        request = replace(request, input=[_with_short_id(item, lacks.call_ids) for item in request.input])
    return request


def fitted_body(body: dict[str, Any], provider: NamedProvider) -> dict[str, Any]:
    """Return the body of the request without the fields that the provider refuses."""
    lacks = provider.lacks
    if lacks.strict and body.get("tools"):
        _tell(provider, "enforces no strict schemas: arguments are checked here, and go back if they do not fit")
        for tool in body.get("tools", ()):
            tool.get("function", {}).pop("strict", None)
    if lacks.thoughts:
        for message in body["messages"]:
            refused = message.pop("refusal", None)
            if refused and message.get("content") is None:
                message["content"] = refused
    return body


def _tell(provider: NamedProvider, lack: str, level: int = logging.INFO) -> None:
    """Log what a provider lacks, at its first use in this process."""
    if (provider.title, lack) not in _told:
        _told.add((provider.title, lack))
        _LOG.log(level, "%s %s", provider.title, lack)


def _settings(request: ModelRequest, provider: NamedProvider) -> ModelRequest:
    settings = request.model_settings
    refused = [name for name in provider.lacks.settings if getattr(settings, name) is not None]
    for name in refused:
        _tell(provider, f"has no setting {name!r}: ModelSettings.{name} is left out", logging.WARNING)
    changes: dict[str, Any] = dict.fromkeys(refused)
    if provider.lacks.stream_usage:
        changes["include_usage"] = False
    return replace(request, model_settings=replace(settings, **changes)) if changes else request


def _choice(request: ModelRequest, provider: NamedProvider) -> ModelRequest:
    """Offer a tool that is chosen by name alone, or refuse where none can be forced."""
    choice = request.model_settings.tool_choice
    if choice in (None, "auto", "none") or (choice == "required" and provider.lacks.forced == "named"):
        return request
    if provider.lacks.forced == "all":
        raise UserError(
            f"{provider.title} ignores tool_choice={choice!r}, so that the model may answer without the tool: leave it "
            "out, or say in the instructions which tool to call"
        )
    _tell(provider, "forces no tool by its name: that tool alone is offered, and a call is required")
    name = _name_of(choice)
    offered = [tool for tool in (*request.tools, *request.handoffs) if tool.name == name]
    if not offered:
        raise UserError(f"tool_choice {choice!r} names no tool of this agent")
    settings: ModelSettings = replace(request.model_settings, tool_choice="required")
    return replace(request, tools=offered, handoffs=[], model_settings=settings)


def _name_of(choice: object) -> Any:
    if not isinstance(choice, Mapping):
        return choice
    given = cast("Mapping[str, Any]", choice)
    function = given.get("function")
    return given.get("name") or (cast("Item", function).get("name") if isinstance(function, dict) else None)


def _schema_in_words(request: ModelRequest, provider: NamedProvider, streamed: bool) -> bool:
    schema, when = request.output_schema, provider.lacks.schema
    if not when or schema is None or schema.is_plain_text():
        return False
    beside_tools = bool(request.tools or request.handoffs)
    return when == "always" or beside_tools or (streamed and when == "tools and streams")


def _with_short_id(item: Item, pattern: str) -> Item:
    """Return the item with an id that the provider takes: the same id always becomes the same."""
    label: Any = item.get("call_id")
    if not isinstance(label, str) or re.fullmatch(pattern, label):
        return item
    return {**item, "call_id": hashlib.sha256(label.encode()).hexdigest()[:_ID_LENGTH]}
