"""A model of a provider with the Chat Completions API, found by the provider's name alone.

The row of the provider says where it answers, with which key, and what it lacks. OpenAI's own key, organization and
default client are never used for another provider.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, cast

from ...core.settable import own_of
from ..base import ModelRequest, ModelResponse
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

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return one reply to this conversation."""
        with _unreached(self._provider):
            return await super().get_response(*args, **kwargs)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream one reply as Responses events, as its chunks come."""
        with _unreached(self._provider):
            stream = cast("AsyncGenerator[Any]", super().stream_response(*args, **kwargs))
            async with aclosing(stream) as events:
                async for event in events:
                    yield event

    def _body(self, request: ModelRequest, *, openais: bool, streamed: bool) -> dict[str, Any]:
        request = fitted(request, self._provider, streamed=streamed)
        return fitted_body(super()._body(request, openais=False, streamed=streamed), self._provider)


@contextmanager
def _unreached(provider: NamedProvider) -> Generator[None]:
    """Add to an error of the connection which address it was, and what to do: the client does not say."""
    try:
        yield
    except Exception as error:
        if any(kind.__name__ == "APIConnectionError" for kind in type(error).__mro__):
            remedy = "start it, or set" if provider.keyless else "set"
            address = f"{provider.base_url()}: {remedy} {provider.address_variable} if it is elsewhere"
            error.add_note(f"{provider.title} was not reached at {address}")
        raise


def _client_of(provider: NamedProvider) -> Any:
    client = new_client(api_key=provider.key_in_use(), base_url=provider.base_url())
    client.organization = client.project = None  # the environment names them for OpenAI
    return client
