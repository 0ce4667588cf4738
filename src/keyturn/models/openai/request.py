"""Build the body of a Responses API request, and its items as that API takes them.

Items go out as they are in the conversation. Only what the API itself refuses is left out: fields that it gives and
does not take, and what other providers' models thought. Arguments that are no JSON object go out as the text in one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item
from ..base import ModelRequest, ModelSettings
from ..turns import call_text
from .tools import chosen, offered
from .wire import plain

LOGPROBS = "message.output_text.logprobs"

# Given in items and not taken back; `provider_data` is what other members keep of their own provider's replies.
_NOT_TAKEN = frozenset({"created_by", "provider_data", "parsed_arguments"})
_NOT_TAKEN_OF = {"custom_tool_call_output": frozenset({"status"})}
_NOTHING: frozenset[str] = frozenset()
_ID = frozenset({"id"})
# Of what another member keeps, these say the same to every model.
_TOLD_TO_ALL = (None, "message", "function_call", "custom_tool_call")
# What another SDK calls an item that has no id; its sessions may hold it.
_NO_ID = "__fake_id__"


def responses_body(model: str | None, request: ModelRequest) -> dict[str, Any]:
    """Build the body, without what is None."""
    settings, tools = request.model_settings, offered(request.tools, request.handoffs)
    body: dict[str, Any] = {
        "model": model,
        "input": sent_items(request.input),
        "instructions": request.system_instructions,
        "previous_response_id": request.previous_response_id,
        "conversation": request.conversation_id,
        "prompt": prompt_of(request.prompt),
        "tools": tools or None,
        "tool_choice": chosen(settings.tool_choice, tools),
        "text": _text(request.output_schema, settings),
        "include": _included(settings, request.tools),
        "max_output_tokens": settings.max_tokens,
        "reasoning": None if settings.reasoning is None else plain(settings.reasoning, "ModelSettings.reasoning"),
    }
    body |= {name: getattr(settings, name) for name in _SAME}
    return {name: value for name, value in body.items() if value is not None}


# Settings that the API knows by the same name.
_SAME = (
    "temperature",
    "top_p",
    "truncation",
    "parallel_tool_calls",
    "metadata",
    "store",
    "prompt_cache_retention",
    "top_logprobs",
)


def sent_items(items: list[Item]) -> list[Item]:
    """Return the conversation as the API takes it."""
    return [sent for item in items if (sent := _sent(item)) is not None]


def _sent(item: Item) -> Item | None:
    kind = item.get("type")
    if kind == "function_call" and isinstance(given := item.get("arguments"), str):
        text = call_text(given)
        item = item if text == given else {**item, "arguments": text}
    kept_back = _NOT_TAKEN_OF.get(str(kind), _NOTHING)
    if _NOT_TAKEN.isdisjoint(item) and kept_back.isdisjoint(item) and item.get("id") != _NO_ID:
        return item
    # Only who thought it, or ran it, can read it: the API wants reasoning with an id of its own.
    foreign = "provider_data" in item and kind not in _TOLD_TO_ALL
    if foreign or (kind == "reasoning" and item.get("id") == _NO_ID):
        return None
    kept_back = kept_back | _NOT_TAKEN | (_ID if item.get("id") == _NO_ID else _NOTHING)
    sent = {name: value for name, value in item.items() if name not in kept_back}
    output = item.get("output")
    if isinstance(output, list):  # of a shell that the provider ran, each entry says who made it, too
        sent["output"] = [_without_maker(entry) for entry in cast("list[Any]", output)]
    return sent


def _without_maker(entry: object) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {name: value for name, value in cast("Item", entry).items() if name != "created_by"}


def prompt_of(prompt: object) -> Item | None:
    """Return a stored prompt without what is not set."""
    if prompt is None:
        return None
    given: Any = plain(prompt, "the prompt")
    if not given.get("id"):
        raise UserError("a stored prompt needs its 'id'")
    return {name: value for name, value in cast("Item", given).items() if value is not None}


def schema_format(schema: Any) -> Item | None:
    """Return the text format of an output schema, None where any text will do."""
    if schema is None or schema.is_plain_text():
        return None
    return {"name": "final_output", "schema": schema.json_schema(), "strict": schema.is_strict_json_schema()}


def _text(schema: object, settings: ModelSettings) -> Item | None:
    form = schema_format(schema)
    text: Item = {} if form is None else {"format": {"type": "json_schema", **form}}
    if settings.verbosity is not None:
        text["verbosity"] = settings.verbosity
    return text or None


def _included(settings: ModelSettings, tools: Iterable[Any]) -> list[str] | None:
    included = list(settings.response_include or [])
    wanted = (name for tool in tools for name in getattr(tool, "response_include", ()))
    included += [name for name in dict.fromkeys(wanted) if name not in included]
    if settings.top_logprobs is not None and LOGPROBS not in included:
        included.append(LOGPROBS)
    return included or None
