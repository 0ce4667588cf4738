"""Build the body of a Messages API request from settings, tools, handoffs and the output type.

Settings that the API does not have are left out, so that one `ModelSettings` serves every model of a fallback; what
would silently lose the conversation (server-kept history, stored prompts) is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item
from ..base import ModelRequest, ModelSettings
from ..request_parts import function_of, joined, open_schema, schema_instruction, words_for
from .messages import THINKING, called_names, messages

Body = dict[str, Any]

_CHOICES = {"auto": "auto", "required": "any", "any": "any", "none": "none"}
_OWN_CHOICES = ("auto", "any", "none", "tool")
# How long a cached prefix is kept, by the names that OpenAI's models and these have for it.
_KEPT = {"24h": "1h", "1h": "1h", "5m": "5m"}


@dataclass
class AnthropicQuestion:
    """Holds the body and options of a request; `retry` is how often it may be sent again."""

    body: Body
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    retry: Any = None

    def going_on(self, said: list[Body]) -> AnthropicQuestion:
        """Return the request by which a paused model goes on: its own words are the last message."""
        return replace(
            self, body={**self.body, "messages": [*self.body["messages"], {"role": "assistant", "content": said}]}
        )


def anthropic_question(model: str, max_tokens: int, request: ModelRequest) -> AnthropicQuestion:
    """Build the body and the options of one request."""
    _refuse(request)
    settings = request.model_settings
    system, turns = messages(request.input)
    body: Body = {"model": model, "max_tokens": settings.max_tokens or max_tokens, "messages": turns}
    instructions = [request.system_instructions, *system]
    body |= _settings(settings)
    _format(body, request.output_schema, instructions)
    if text := joined(instructions):
        body["system"] = text
    _tools(body, request)
    if _thinks_late(body):
        del body["thinking"]
    return AnthropicQuestion(body, _options(settings), settings.retry)


def _refuse(request: ModelRequest) -> None:
    for name in ("previous_response_id", "conversation_id", "prompt"):
        if getattr(request, name) is not None:
            raise UserError(
                f"{name} is of OpenAI's server and has no counterpart in Anthropic's API, which keeps nothing: "
                "leave it out, and keep the conversation in a session"
            )


def _settings(settings: ModelSettings) -> Body:
    body: Body = {}
    for name in ("temperature", "top_p"):
        if getattr(settings, name) is not None:
            body[name] = getattr(settings, name)
    if settings.metadata and "user_id" in settings.metadata:
        body["metadata"] = {"user_id": settings.metadata["user_id"]}
    if settings.prompt_cache_retention is not None:
        kept = _KEPT.get(settings.prompt_cache_retention)
        body["cache_control"] = {"type": "ephemeral", **({"ttl": kept} if kept else {})}
    body |= _thinking(settings.reasoning)
    extra = dict(settings.extra_args or {})
    extra.pop("tools", None)
    return body | extra


def _thinking(reasoning: object) -> Body:
    """Return the thinking option as the API has it, or by effort as OpenAI's models have it."""
    if reasoning is None:
        return {}
    if isinstance(reasoning, Mapping):
        own = dict(cast("Mapping[str, Any]", reasoning))
        if "type" in own:
            return {"thinking": own}
        if "budget_tokens" in own:
            return {"thinking": {"type": "enabled", **own}}
        effort, shown = own.get("effort"), own.get("summary")
    else:
        effort, shown = getattr(reasoning, "effort", None), getattr(reasoning, "summary", None)
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    made: Body = {"thinking": {"type": "adaptive", **({"display": "summarized"} if shown else {})}}
    if effort is not None:
        made["output_config"] = {"effort": "low" if effort == "minimal" else effort}
    return made


def _thinks_late(body: Body) -> bool:
    """Return whether thinking would begin in the middle of a tool loop, which the API refuses with 400."""
    if body.get("thinking", {}).get("type") != "enabled":
        return False
    told = (message["content"] for message in reversed(body["messages"]) if message["role"] == "assistant")
    last: list[Body] = next(told, None) or []
    return any(block["type"] == "tool_use" for block in last) and last[0]["type"] not in THINKING


def _format(body: Body, schema: Any, instructions: list[str | None]) -> None:
    """Request the output type: by the API where it can, else by an instruction."""
    if schema is None or schema.is_plain_text():
        return
    wanted: Body = schema.json_schema()
    if open_schema(wanted):
        instructions.append(schema_instruction(wanted))
        return
    from anthropic import transform_schema

    try:
        form = {"type": "json_schema", "schema": transform_schema(wanted)}
    except ValueError as error:
        raise UserError(
            f"output type {schema.name()}: the Messages API cannot hold an answer to it: {error}"
        ) from error
    body["output_config"] = {**body.get("output_config", {}), "format": form}


def _tools(body: Body, request: ModelRequest) -> None:
    settings = request.model_settings
    tools = [tool_param(tool) for tool in (*request.tools, *request.handoffs)]
    tools += cast("Iterable[Body]", (settings.extra_args or {}).get("tools") or [])
    called = [] if tools else called_names(body["messages"])
    if called:
        # The API wants a definition wherever calls are told, also where this agent has no tools at all.
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in called]
        body["tool_choice"] = {"type": "none"}
    elif tools:
        body["tools"] = tools
        if choice := _choice(settings):
            body["tool_choice"] = choice


def tool_param(tool: object) -> Body:
    """Convert a tool or a handoff to the API's tool definition."""
    own = words_for(tool, "a Claude model")
    if own is not None:
        return own
    made = function_of(tool, "a Claude model")
    described = {"description": made["description"]} if made["description"] else {}
    return {"name": made["name"], **described, "input_schema": made["parameters"]}


def _choice(settings: ModelSettings) -> Body | None:
    given: Any = settings.tool_choice
    choice: Body | None
    if isinstance(given, dict):
        own = cast("Item", given)
        choice = dict(own) if own.get("type") in _OWN_CHOICES else {"type": "tool", "name": _named(own)}
    elif given is not None:
        kind = _CHOICES.get(given)
        choice = {"type": "tool", "name": given} if kind is None else {"type": kind}
    else:
        choice = {"type": "auto"} if settings.parallel_tool_calls is False else None
    if choice is not None and settings.parallel_tool_calls is not None and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = not settings.parallel_tool_calls
    return choice


def _named(choice: Item) -> str:
    function = choice.get("function")
    name = choice.get("name") or (cast("Item", function).get("name") if isinstance(function, dict) else None)
    if not isinstance(name, str):
        raise UserError(f"tool_choice {choice!r} names no tool; write its name, 'auto', 'required' or 'none'")
    return name


def _options(settings: ModelSettings) -> dict[str, Any]:
    given = {
        "headers": settings.extra_headers,
        "params": settings.extra_query,
        "extra_json": settings.extra_body,
        "timeout": settings.timeout,
    }
    return {name: value for name, value in given.items() if value is not None}
