"""Both of OpenAI's APIs as a test needs them: a loopback server, the model that asks it, and what a request said.

Nothing is tested here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest

from keyturn.engine.effects.ask_model import read, streamed_response
from keyturn.models.base import Model, ModelResponse, ModelSettings
from keyturn.models.openai.chat import OpenAIChatCompletionsModel
from keyturn.models.openai.responses import OpenAIResponsesModel
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import LoopbackServer

MODELS: dict[type[LoopbackServer], type[Any]] = {
    ResponsesServer: OpenAIResponsesModel,
    ChatServer: OpenAIChatCompletionsModel,
}
both_apis = pytest.mark.parametrize("api", list(MODELS), ids=["responses", "chat"])

NOW = {"retry-after-ms": "1"}


def client_of(server: LoopbackServer, **options: Any) -> openai.AsyncOpenAI:
    """A client of a user's own. It reads no certificates, which takes longer than a test."""
    http = httpx2.AsyncClient(verify=False)
    return openai.AsyncOpenAI(
        api_key="sk-test", base_url=server.base_url, http_client=http, **{"max_retries": 0, **options}
    )


def model_of(server: LoopbackServer, client: Any = None) -> Any:
    """A model that asks this server."""
    kind = next(MODELS[base] for base in type(server).__mro__ if base in MODELS)
    return kind("m", client or client_of(server))


@asynccontextmanager
async def served(server: Any) -> AsyncIterator[Any]:
    """A model in front of a running server."""
    async with server, client_of(server) as client:
        yield model_of(server, client)


def hosted(server: Any) -> Any:
    """The same for a suite, which closes its model and nothing else."""
    client = client_of(server)
    model = model_of(server, client)

    async def close_both() -> None:
        await client.close()
        await server.close()

    model.close = close_both
    return model


def status_error(status: int) -> openai.APIStatusError:
    """What the SDK raises for a status."""
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://127.0.0.1/"))
    kind = {400: openai.BadRequestError, 429: openai.RateLimitError}[status]
    return kind("scripted", response=response, body=None)


def asking(given: Any = "hi", settings: ModelSettings | None = None, **other: Any) -> tuple[tuple[Any, ...], Any]:
    """The arguments of one question."""
    asked = (
        other.pop("system", None),
        given,
        settings or ModelSettings(),
        other.pop("tools", []),
        other.pop("schema", None),
        other.pop("handoffs", []),
        None,
    )
    return asked, other


async def ask(model: Model, given: Any = "hi", *, streamed: bool = False, **other: Any) -> ModelResponse:
    """One reply, plain or from the last event of its stream."""
    asked, kept = asking(given, **other)
    if not streamed:
        return await model.get_response(*asked, **kept)
    return streamed_response(read((await events_of(model, given, **other))[-1], "response"))


async def events_of(model: Model, given: Any = "hi", **other: Any) -> list[Any]:
    """All events of one stream."""
    asked, kept = asking(given, **other)
    return [event async for event in model.stream_response(*asked, **kept)]


async def broken_off(model: Model, **other: Any) -> tuple[list[Any], BaseException | None]:
    """The events of a stream, and what ended it if it did not end by itself."""
    asked, kept = asking(**other)
    events: list[Any] = []
    try:
        async for event in model.stream_response(*asked, **kept):
            events.append(event)
    except Exception as error:
        return events, error
    return events, None


def kinds(events: list[Any]) -> list[str]:
    """The types of events, in short."""
    return [read(event, "type").removeprefix("response.") for event in events]


def bodies(server: LoopbackServer) -> list[Any]:
    """What the requests said."""
    return [request.json for request in server.requests]
