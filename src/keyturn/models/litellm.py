"""A bridge to LiteLLM: the models of every provider that it knows, asked in this process through `litellm.acompletion`.

It takes and gives what Chat Completions does, so that conversations are converted as for those servers. The package
`litellm` is imported when the first model is asked; keys and addresses are found as it finds them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from importlib import import_module
from typing import Any

from ..core.errors import UserError
from ..core.items import input_items
from ..core.settable import Sealed
from .base import Model, ModelProvider, ModelRequest, ModelResponse, close_stream
from .faults import again, retries
from .openai.chat_reply import checked_chat
from .openai.chat_request import chat_body
from .openai.chat_stream import ChatStream
from .openai.wire import OpenAIAnswer
from .openai.written_calls import Offered
from .reading import understood

_WHO = "LiteLLM"


class LitellmModel(Model, Sealed):
    """Asks a model by the name that LiteLLM has for it, such as `cohere/command-a`.

    `base_url` and `api_key` are handed on; without them LiteLLM reads the provider's variables. What may pass is asked
    again, twice unless `ModelSettings.retry` says otherwise.

    >>> LitellmModel("cohere/command-a").model
    'cohere/command-a'
    """

    provider = "litellm"

    def __init__(self, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        self.model = model
        self._options = {name: value for name, value in {"base_url": base_url, "api_key": api_key}.items() if value}

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return one reply to this conversation."""
        ask, settings = self._question(ModelRequest(*args, **kwargs), streamed=False)
        answer = await again(ask, retries(settings.retry))
        return understood(lambda: checked_chat(OpenAIAnswer(_plain(answer), None), Offered.of(ask.keywords)), _WHO)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream one reply as Responses events, as its chunks come."""
        ask, settings = self._question(ModelRequest(*args, **kwargs), streamed=True)
        chunks, stream = await again(ask, retries(settings.retry), stream=True), ChatStream(Offered.of(ask.keywords))
        try:
            async for chunk in chunks:
                for event in understood(lambda given=chunk: list(stream.take(_plain(given), None)), _WHO):
                    yield event
        finally:
            await close_stream(chunks)
        for event in understood(lambda: list(stream.end()), _WHO):
            yield event

    def _question(self, request: ModelRequest, *, streamed: bool) -> tuple[partial[Any], Any]:
        request.input = input_items(request.input)
        settings = request.model_settings
        body = chat_body(self.model, request, openais=False, streamed=streamed)
        named = {name: getattr(settings, name) for name in ("extra_headers", "extra_body", "timeout")}
        given = {name: value for name, value in named.items() if value is not None}
        # What is tried again is decided here, where it is known what was told and recorded.
        options = {**body, **self._options, **given, "max_retries": 0, **(settings.extra_args or {})}
        return partial(_package().acompletion, **options, stream=streamed), settings


class LitellmProvider(ModelProvider):
    """Finds LiteLLM's models by name.

    >>> LitellmProvider().get_model("cohere/command-a").model
    'cohere/command-a'
    """

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of that name."""
        if not model_name:
            raise UserError("LiteLLM has no default model: name one, such as 'litellm:cohere/command-a'")
        return LitellmModel(model_name)


def litellm_model(name: str, _prefix: str) -> Model:
    """Return the model of a name that begins with `litellm:`."""
    return LitellmModel(name)


def _package() -> Any:
    try:
        return import_module("litellm")
    except ModuleNotFoundError as error:
        raise UserError(f"LiteLLM's models need the package {error.name!r}: pip install 'keyturn[litellm]'") from error


def _plain(given: Any) -> Any:
    return given.model_dump(mode="json", exclude_none=True)
