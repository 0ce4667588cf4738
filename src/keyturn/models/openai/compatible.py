"""A model of a provider with the Chat Completions API, found by the provider's name alone.

The row of the provider says where it answers, with which key, and what it lacks. OpenAI's own key, organization and
default client are never used for another provider.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...core.settable import own_of
from ..base import ModelRequest
from ..providers import PROVIDERS, NamedProvider
from .account import OpenAIAccount, new_client
from .chat import OpenAIChatCompletionsModel
from .fitting import fitted, fitted_body


class CompatibleModel(OpenAIChatCompletionsModel):
    """Asks a model of a provider in the table.

    >>> CompatibleModel("qwen3", "ollama").model
    'qwen3'
    """

    def __init__(self, model: str, prefix: str) -> None:
        super().__init__(model)
        self._provider = PROVIDERS[prefix]
        self._account = OpenAIAccount(make=partial(_client_of, self._provider))
        own_of(self)["provider"] = self._provider.trace

    def _body(self, request: ModelRequest, *, openais: bool, streamed: bool) -> dict[str, Any]:
        request = fitted(request, self._provider, streamed=streamed)
        return fitted_body(super()._body(request, openais=False, streamed=streamed), self._provider)


def _client_of(provider: NamedProvider) -> Any:
    client = new_client(api_key=provider.key_in_use(), base_url=provider.base_url())
    client.organization = client.project = None  # the environment names them for OpenAI
    return client
