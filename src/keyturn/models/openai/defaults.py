"""Process-wide defaults of OpenAI's models: a key, a client, which of its two APIs, a model name.

Set once at start-up, read by the members when they need it. Other providers keep theirs in their own member.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, cast

from ...core.errors import UserError
from ..base import ModelSettings

OpenAIAPI = Literal["chat_completions", "responses"]
OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME = "OPENAI_DEFAULT_MODEL"
GPT5DefaultReasoningEffort = Literal["none", "low", "medium"]
_APIS = ("chat_completions", "responses")


@dataclass
class OpenAIDefaults:
    """Holds the defaults.

    `changes` counts the settings, so that what was made with older ones is not reused.

    >>> OpenAIDefaults().api
    'responses'
    """

    key: str | None = None
    client: Any = None
    api: OpenAIAPI = "responses"
    use_for_tracing: bool = True
    changes: int = 0

    def model_name(self) -> str:
        """Return the default model: the environment's `OPENAI_DEFAULT_MODEL`, else one of our choice."""
        return os.environ.get(OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME, "").strip() or "gpt-5.6-luna"


OPENAI = OpenAIDefaults()


def set_default_openai_key(key: str, use_for_tracing: bool = True) -> None:
    """Use this key where no client is given, in place of the environment's `OPENAI_API_KEY`.

    >>> set_default_openai_key("sk-test")
    >>> OPENAI.key
    'sk-test'
    >>> OPENAI.key = None  # as it was
    """
    if not isinstance(cast("Any", key), str) or not key:
        raise UserError("the OpenAI key must be a non-empty string; is the variable it comes from set?")
    OPENAI.key, OPENAI.use_for_tracing = key, use_for_tracing
    OPENAI.changes += 1


def set_default_openai_client(client: object, use_for_tracing: bool = True) -> None:
    """Use this `AsyncOpenAI` client, address and key included, where an OpenAI model has none of its own.

    >>> set_default_openai_client("a client")
    >>> OPENAI.client
    'a client'
    >>> OPENAI.client = None  # as it was
    """
    if client is None:
        raise UserError("set_default_openai_client needs an AsyncOpenAI client, not None")
    OPENAI.client, OPENAI.use_for_tracing = client, use_for_tracing
    OPENAI.changes += 1


def set_default_openai_api(api: OpenAIAPI) -> None:
    """Set which API a bare model name uses: `responses` or `chat_completions`.

    >>> set_default_openai_api("chat_completions")
    >>> OPENAI.api
    'chat_completions'
    >>> set_default_openai_api("responses")
    """
    if api not in _APIS:
        raise UserError(f"the OpenAI API must be 'responses' or 'chat_completions', not {api!r}")
    OPENAI.api = api
    OPENAI.changes += 1


def get_default_model() -> str:
    """Return the name of the model that is asked where none is named; `OPENAI_DEFAULT_MODEL` sets it.

    >>> get_default_model()
    'gpt-5.6-luna'
    """
    return OPENAI.model_name().lower()


def get_default_model_settings(model: str | None = None) -> ModelSettings:  # whichever model it is
    """Return the settings of an agent that brings none: all of them are left to the provider.

    >>> get_default_model_settings("gpt-5") == ModelSettings()
    True
    """
    return ModelSettings()


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Return whether a model is of the GPT-5 family and accepts settings of reasoning.

    >>> gpt_5_reasoning_settings_required("gpt-5.6-luna"), gpt_5_reasoning_settings_required("gpt-5-chat-latest")
    (True, False)
    """
    return model_name.startswith("gpt-5") and not model_name.endswith("-chat-latest")


def is_gpt_5_default() -> bool:
    """Return whether the default model is of the GPT-5 family.

    >>> is_gpt_5_default()
    True
    """
    return gpt_5_reasoning_settings_required(get_default_model())
