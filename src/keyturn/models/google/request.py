"""Build a Gemini request from settings, tools, handoffs and the output type.

Settings that Gemini does not have are left out, so that one `ModelSettings` serves every model of a fallback; what
would silently lose the conversation (server-kept history, stored prompts) is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...core.errors import UserError
from ...core.items import Item
from ..base import ModelRequest, ModelSettings
from ..request_parts import function_of, joined, open_schema, schema_instruction, words_for
from .contents import Content, contents, is_old

Config = dict[str, Any]

# What the settings are called there.
_NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "max_tokens": "max_output_tokens",
    "top_logprobs": "logprobs",
}
_MODES = {"auto": "AUTO", "required": "ANY", "any": "ANY", "none": "NONE"}
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH"}
# How many tokens an effort is for models that know no levels: the numbers of Google's own OpenAI-compatible endpoint.
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}
_THINKING = ("thinking_budget", "thinking_level", "include_thoughts")


@dataclass
class GoogleQuestion:
    """Holds the contents and configuration of a request, and how often it may be retried."""

    model: str
    contents: list[Content]
    config: Config
    retry: Any = None

    def given(self) -> dict[str, Any]:
        """Return the arguments for the client's methods."""
        return {"model": self.model, "contents": self.contents, "config": self.config}


def google_question(model: str, request: ModelRequest) -> GoogleQuestion:
    """Build the contents and the configuration of one request."""
    _refuse(request)
    settings = request.model_settings
    system, messages = contents(request.input, model)
    # Nothing is called behind the run's back: the SDK would run Python functions by itself.
    config: Config = {"automatic_function_calling": {"disable": True}}
    config |= {_NAMES[name]: value for name in _NAMES if (value := getattr(settings, name)) is not None}
    if settings.top_logprobs is not None:
        config["response_logprobs"] = True
    if thinking := _thinking(settings.reasoning, is_old(model)):
        config["thinking_config"] = thinking
    _tools(config, request)
    instructions = [request.system_instructions, *system]
    _format(config, request.output_schema, instructions, beside_tools=not is_old(model) or "tools" not in config)
    if text := joined(instructions):
        config["system_instruction"] = text
    if options := _options(settings):
        config["http_options"] = options
    extra = {name: value for name, value in (settings.extra_args or {}).items() if name != "tools"}
    return GoogleQuestion(model, messages, config | extra, settings.retry)


def _refuse(request: ModelRequest) -> None:
    for name in ("previous_response_id", "conversation_id", "prompt"):
        if getattr(request, name) is not None:
            raise UserError(
                f"{name} is of OpenAI's server and has no counterpart in Gemini's generateContent, which keeps "
                "nothing: leave it out, and keep the conversation in a session"
            )
    if request.model_settings.extra_query is not None:
        raise UserError("ModelSettings.extra_query: Google's client sends no query of the caller's")


def _thinking(reasoning: object, old: bool) -> Config:
    """Return the thinking option as Gemini has it, or by effort as OpenAI's models have it."""
    if reasoning is None:
        return {}
    given: Mapping[str, Any]
    if isinstance(reasoning, Mapping):
        given = cast("Mapping[str, Any]", reasoning)
    else:
        given = {name: getattr(reasoning, name, None) for name in ("effort", "summary", *_THINKING)}
    made = {name: given[name] for name in _THINKING if given.get(name) is not None}
    effort = given.get("effort")
    if effort is not None and (old or effort == "none"):
        made["thinking_budget"] = _BUDGETS.get(effort, -1)
    elif effort is not None:
        made["thinking_level"] = _LEVELS.get(effort, str(effort).upper())
    if given.get("summary") is not None:
        made["include_thoughts"] = True
    return made


def _tools(config: Config, request: ModelRequest) -> None:
    settings = request.model_settings
    said = [(tool, words_for(tool, "a Gemini model")) for tool in (*request.tools, *request.handoffs)]
    declared = [declaration(tool) for tool, own in said if own is None]
    tools: list[Any] = [{"function_declarations": declared}] if declared else []
    tools += [own for _, own in said if own is not None]
    tools += (settings.extra_args or {}).get("tools") or []
    if tools:
        config["tools"] = tools
    choice = _choice(settings.tool_choice)
    if declared and choice is not None:
        config["tool_config"] = {"function_calling_config": choice}


def declaration(tool: object) -> Config:
    """Convert a tool or a handoff to Gemini's function declaration."""
    made = function_of(tool, "a Gemini model")
    return {"name": made["name"], "description": made["description"], "parameters_json_schema": made["parameters"]}


def _choice(given: Any) -> Config | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        mode = _MODES.get(given)
        return {"mode": mode} if mode else {"mode": "ANY", "allowed_function_names": [given]}
    own = cast("Item", given)
    if "mode" in own:
        return own
    function = own.get("function")
    name = own.get("name") or (cast("Item", function).get("name") if isinstance(function, dict) else None)
    if not isinstance(name, str):
        raise UserError(f"tool_choice {given!r} names no tool; write its name, 'auto', 'required' or 'none'")
    return {"mode": "ANY", "allowed_function_names": [name]}


def _format(config: Config, schema: Any, instructions: list[str | None], *, beside_tools: bool) -> None:
    """Request the output type: by Gemini's own schema option where it can, else by an instruction."""
    if schema is None or schema.is_plain_text():
        return
    wanted: Config = schema.json_schema()
    if open_schema(wanted) or not beside_tools:
        instructions.append(schema_instruction(wanted))
        return
    config["response_mime_type"] = "application/json"
    config["response_json_schema"] = wanted


def _options(settings: ModelSettings) -> Config:
    given = {
        "headers": dict(settings.extra_headers) if settings.extra_headers is not None else None,
        "extra_body": dict(settings.extra_body) if settings.extra_body is not None else None,
        "timeout": round(settings.timeout * 1000) if settings.timeout is not None else None,
    }
    return {name: value for name, value in given.items() if value is not None}
