"""Build the body of a Chat Completions request.

What that API cannot say is an error and not left out, except settings that only tune: one `ModelSettings` serves
every model.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ..base import ModelRequest, ModelSettings
from .chat_messages import chat_messages
from .request import schema_format
from .tools import as_chat_choice, as_chat_tool, chosen, offered_in_chat
from .wire import plain

# Settings that the API knows by the same name.
_SAME = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "metadata",
    "store",
    "verbosity",
    "prompt_cache_retention",
    "top_logprobs",
)
_NOT_HERE = ("previous_response_id", "conversation_id", "prompt")


def chat_body(model: str, request: ModelRequest, *, openais: bool, streamed: bool) -> dict[str, Any]:
    """Build the body, without what is None.

    `openais` says that the server is OpenAI's own.
    """
    for name in _NOT_HERE:
        if getattr(request, name) is not None:
            raise UserError(
                f"{name} needs a server that keeps it, and Chat Completions keeps nothing: leave it out and keep the "
                "conversation in a session, or use OpenAIResponsesModel"
            )
    settings = request.model_settings
    tools = offered_in_chat(request.tools, request.handoffs, openais=openais)
    schema = schema_format(request.output_schema)
    body: dict[str, Any] = {
        "model": model,
        "messages": chat_messages(request.system_instructions, request.input),
        "tools": [as_chat_tool(tool) for tool in tools] or None,
        "tool_choice": as_chat_choice(chosen(settings.tool_choice, tools)),
        "parallel_tool_calls": settings.parallel_tool_calls if tools else None,
        "response_format": None if schema is None else {"type": "json_schema", "json_schema": schema},
        "reasoning_effort": _effort(settings),
        # Its own models want the newer name, and other servers know the older one.
        "max_completion_tokens" if openais else "max_tokens": settings.max_tokens,
        "logprobs": True if settings.top_logprobs is not None else None,
        "stream_options": {"include_usage": True} if streamed and settings.include_usage is not False else None,
    }
    body |= {name: getattr(settings, name) for name in _SAME}
    return {name: value for name, value in body.items() if value is not None}


def _effort(settings: ModelSettings) -> Any:
    return None if settings.reasoning is None else plain(settings.reasoning, "ModelSettings.reasoning").get("effort")
