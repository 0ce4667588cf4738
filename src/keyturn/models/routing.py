"""Find a model by its name: which provider it is, and its class, imported on first use.

A bare name is OpenAI's; `provider:name` and `provider/name` name the provider. A new wire format is one row of
`MEMBERS`, and a new provider that speaks one of them a row of `PROVIDERS`. Nothing here talks to a provider.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, TypedDict, Unpack, cast

from ..core.errors import UserError
from ..core.settable import Sealed
from .base import Model, ModelProvider
from .openai.defaults import OPENAI
from .providers import PROVIDERS

# What a prefix means: module and class. The extra to install is the prefix up to its first dash.
MEMBERS: dict[str, str] = {
    "openai": "keyturn.models.openai.responses:OpenAIResponsesModel",
    "openai-chat": "keyturn.models.openai.chat:OpenAIChatCompletionsModel",
    "anthropic": "keyturn.models.anthropic.model:AnthropicModel",
    "google": "keyturn.models.google.model:GoogleModel",
}

#: The variable that names the model of an agent that names none.
DEFAULT_VARIABLE = "KEYTURN_MODEL"

# OpenAI's own names may hold a colon: fine-tuned models do.
_BARE = re.compile(r"ft:.*|[^:/]*")
_NAME = re.compile(r"([^:/]*)[:/](.*)", re.DOTALL)


def split_name(model_name: str) -> tuple[str | None, str]:
    """Split a model name into its provider, None where it names none, and the rest.

    >>> split_name("anthropic:claude-sonnet"), split_name("openai/gpt-5"), split_name("gpt-5")
    (('anthropic', 'claude-sonnet'), ('openai', 'gpt-5'), (None, 'gpt-5'))
    """
    found = None if _BARE.fullmatch(model_name) else _NAME.fullmatch(model_name)
    return (None, model_name) if found is None else (found[1], found[2])


def model_class(prefix: str) -> Any:
    """Return what makes the models behind a prefix, or raise a `UserError` that says what to install."""
    module, _, name = (MEMBERS.get(prefix) or PROVIDERS[prefix].made_by).partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise _missing(prefix, error) from error


def chosen_by_environment() -> str | None:
    """Return the model that the environment names for agents that name none."""
    return os.environ.get(DEFAULT_VARIABLE, "").strip() or None


def _missing(prefix: str, error: ModuleNotFoundError) -> UserError:
    extra = _EXTRAS.get((error.name or "").partition(".")[0], prefix.partition("-")[0])
    return UserError(
        f"models of {prefix!r} need the package {error.name!r}, which is not installed: pip install 'keyturn[{extra}]'"
    )


# The extra that a package is in, where it is not called as the prefix is.
_EXTRAS = {"openai": "openai", "anthropic": "anthropic", "google": "google", "httpx2": "openai"}


class OpenAIOptions(TypedDict, total=False):
    """Declares the account and API options that `MultiProvider` takes for OpenAI's models."""

    openai_api_key: str | None
    openai_base_url: str | None
    openai_client: Any
    openai_organization: str | None
    openai_project: str | None
    openai_use_responses: bool | None


# What an OpenAI member calls these settings, where it calls them something else.
_MEMBER_OPTIONS = {
    "openai_api_key": "api_key",
    "openai_base_url": "base_url",
    "openai_organization": "organization",
    "openai_project": "project",
}

# What to write in place of settings that the class of this name has in the OpenAI Agents SDK.
_HTTP = "models are asked over HTTP only; leave it out"
_ELSEWHERE = {
    "openai_prefix_mode": "write 'openai:NAME' for the whole name of a model behind OpenAI's API",
    "openai_use_responses_websocket": _HTTP,
    "openai_websocket_base_url": _HTTP,
    "openai_agent_registration": "name runs with RunConfig(workflow_name=..., group_id=...)",
}

# Packages between a program and providers that models of the OpenAI Agents SDK are named by, and that are not here.
_GATEWAYS = {"any-llm": "any-llm"}


class MultiProvider(ModelProvider, Sealed):
    """Finds a model by its name, whoever the provider is, and caches it.

    `mapping` adds prefixes of your own, or takes over known ones: `{"local": MyProvider()}` serves
    `"local:llama"` and `"local/llama"`. The `openai_*` settings are for OpenAI's models.

    >>> MultiProvider().get_model("local:llama")
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: no provider is called 'local' (model 'local:llama'); known are openai, \
openai-chat, anthropic, google, ollama, llama.cpp, vllm, lmstudio, openrouter, groq, mistral, deepseek, xai, together, \
fireworks, azure, azure-chat, bedrock, vertex, litellm. Write 'openai:local:llama' if that is the whole name of a \
model behind OpenAI's API, or pass MultiProvider({'local': provider})
    """

    _remedies = dict.fromkeys(OpenAIOptions.__annotations__, "make another MultiProvider")

    def __init__(
        self,
        mapping: Mapping[str, ModelProvider] | None = None,
        *,
        provider_map: Mapping[str, ModelProvider] | None = None,
        unknown_prefix_mode: Literal["error", "model_id"] = "error",
        **openai: Unpack[OpenAIOptions],
    ) -> None:
        self._mapping = {**(provider_map or {}), **(mapping or {})}
        for prefix, provider in self._mapping.items():
            if not isinstance(cast("Any", provider), ModelProvider):
                raise UserError(f"MultiProvider: {prefix!r} must map to a ModelProvider, not {type(provider).__name__}")
        for name in openai.keys() - OpenAIOptions.__annotations__.keys():
            remedy = _ELSEWHERE.get(name)
            raise TypeError(f"MultiProvider has no setting {name!r}{f': {remedy}' if remedy else ''}")
        given: dict[str, Any] = {name: value for name, value in openai.items() if value is not None}
        self._use_responses: bool | None = given.pop("openai_use_responses", None)
        if "openai_client" in given and len(given) > 1:
            raise UserError("MultiProvider: openai_client has a key and an address of its own; give one or the other")
        self._openai = {_MEMBER_OPTIONS.get(name, name): value for name, value in given.items()}
        self._unknown_is_name = unknown_prefix_mode == "model_id"
        self._made: dict[tuple[str, str | None, int], Model] = {}

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of that name; None is the one that `KEYTURN_MODEL` names, else OpenAI's default model."""
        model_name = model_name or chosen_by_environment()
        prefix, name = split_name(model_name) if model_name else (None, None)
        if prefix in self._mapping:
            return self._mapping[prefix].get_model(name or None)
        if prefix is not None and prefix not in MEMBERS and prefix not in PROVIDERS:
            if not self._unknown_is_name:
                raise self._unknown(prefix, model_name or "")
            prefix, name = None, model_name or ""
        if name == "":
            raise UserError(f"the model {model_name!r} names a provider and no model")
        return self._member(self._api() if prefix is None else prefix, name)

    async def aclose(self) -> None:
        """Release what the models made here hold."""
        made, self._made = self._made, {}
        for model in made.values():
            await model.close()

    def _api(self) -> str:
        responses = OPENAI.api == "responses" if self._use_responses is None else self._use_responses
        return "openai" if responses else "openai-chat"

    def _member(self, prefix: str, name: str | None) -> Model:
        """Make a member's model; without a name it is the default model.

        A stored prompt may replace that one.
        """
        key = (prefix, name, OPENAI.changes)
        model = self._made.get(key)
        if model is None:
            member = model_class(prefix)
            try:
                if prefix in MEMBERS:
                    model = member(name, **(self._openai if prefix.startswith("openai") else {}))
                else:
                    model = member(name, prefix)
            except ModuleNotFoundError as error:  # a member may import its SDK as late as here
                raise _missing(prefix, error) from error
            self._made[key] = model
        return model

    def _unknown(self, prefix: str, model_name: str) -> UserError:
        names = [*self._mapping, *MEMBERS, *PROVIDERS]
        known = ", ".join(names)
        if prefix in _GATEWAYS:
            return UserError(
                f"keyturn has no {_GATEWAYS[prefix]}, which model {model_name!r} asks for: name the provider "
                f"({known}), or ask its API by OpenAIChatCompletionsModel(base_url=...), or pass "
                f"MultiProvider({{{prefix!r}: provider}}) with a provider of your own"
            )
        near = get_close_matches(prefix.lower(), names, 3, 0.7)
        meant = f"the nearest is {' or '.join(repr(name) for name in near)}, " if near else ""
        return UserError(
            f"no provider is called {prefix!r} (model {model_name!r}); {meant}known are {known}. Write "
            f"'openai:{model_name}' if that is the whole name of a model behind OpenAI's API, or pass "
            f"MultiProvider({{{prefix!r}: provider}})"
        )
