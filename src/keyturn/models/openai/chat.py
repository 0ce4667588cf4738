"""OpenAI's Chat Completions API, and every server that speaks it, asked through the official client.

Conversations are turned into messages and replies into items of the Responses format, whole and streamed alike. The
package `openai` is imported when the model is first asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ...core.items import input_items
from ..base import ModelRequest, ModelResponse
from ..faults import retries
from ..reading import understood
from ..reply_events import StreamEvent
from .account import OpenAIModel, is_openais
from .chat_reply import checked_chat
from .chat_request import chat_body
from .chat_stream import ChatStream
from .wire import OpenAIQuestion, events, whole
from .written_calls import Offered

_WHO = "the provider"


class OpenAIChatCompletionsModel(OpenAIModel):
    """Asks a model behind Chat Completions: OpenAI's, or any compatible server's by its `base_url`.

    Give your own `AsyncOpenAI`, or what one is made from. Failed requests are asked again up to twice, or as
    `ModelSettings(retry=...)` says, while nothing of the reply has come; a client of your own does that itself,
    unless `retry` is set.

    >>> OpenAIChatCompletionsModel("qwen3", base_url="http://localhost:8000/v1", api_key="none").model
    'qwen3'
    """

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return one reply to this conversation."""
        question = await self._question(ModelRequest(*args, **kwargs), streamed=False)
        return understood(partial(checked_chat, await whole(question), Offered.of(question.body)), _WHO)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream one reply as Responses events, as its chunks come."""
        question = await self._question(ModelRequest(*args, **kwargs), streamed=True)
        stream = ChatStream(Offered.of(question.body))
        async with aclosing(events(question)) as chunks:
            async for chunk, request_id in chunks:
                for event in understood(partial(_all, stream.take, chunk, request_id), _WHO):
                    yield event
        for event in understood(partial(_all, stream.end), _WHO):
            yield event

    async def close(self) -> None:
        """Close the client that was made here; one that was given stays open."""
        await self._account.close()

    async def _question(self, request: ModelRequest, *, streamed: bool) -> OpenAIQuestion:
        client, ours = await self._account.client()
        if isinstance(cast("Any", request.input), str):
            request = replace(request, input=input_items(cast("Any", request.input)))
        settings = request.model_settings
        return OpenAIQuestion(
            client.chat.completions,
            self._body(request, openais=is_openais(client), streamed=streamed),
            settings,
            retries(settings.retry, 2 if ours else 0),
        )

    def _body(self, request: ModelRequest, *, openais: bool, streamed: bool) -> dict[str, Any]:
        return chat_body(self.model, request, openais=openais, streamed=streamed)


def _all(convert: Callable[..., Iterator[StreamEvent]], *args: Any) -> list[StreamEvent]:
    return list(convert(*args))
