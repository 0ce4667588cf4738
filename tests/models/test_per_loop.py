"""Each loop has a client of its own, which is closed with it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pytest

from keyturn import (
    Agent,
    AnthropicModel,
    GoogleModel,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
)
from keyturn.models.per_loop import ClientPerLoop, certificates
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.responses import ResponsesServer
from tests.waiting import turns_of_the_loop


class Client:
    """Knows in which loop it was closed."""

    def __init__(self) -> None:
        self.closed_in: asyncio.AbstractEventLoop | None = None
        self.made_in = asyncio.get_running_loop()

    async def aclose(self) -> None:
        await turns_of_the_loop()
        self.closed_in = asyncio.get_running_loop()


def test_a_loop_that_ends_closes_its_client() -> None:
    clients = ClientPerLoop(Client, Client.aclose)

    async def ask() -> Client:
        first = await clients.client()
        assert await clients.client() is first
        return first

    one, other = asyncio.run(ask()), asyncio.run(ask())
    assert one is not other
    assert (one.closed_in, other.closed_in) == (one.made_in, other.made_in)


async def test_a_client_can_be_closed_before_and_another_is_made() -> None:
    clients = ClientPerLoop(Client, Client.aclose)
    await clients.close()  # there is none
    first = await clients.client()
    await clients.close()
    assert first.closed_in is asyncio.get_running_loop()
    second = await clients.client()
    assert second is not first
    await clients.close()
    assert second.closed_in is not None


def test_certificates_are_read_once() -> None:
    assert certificates() is certificates()


async def _hear(agent: Agent[Any], early: bool) -> Any:
    result = Runner.run_streamed(agent, "hi")
    async for event in result.stream_events():
        if early and event.type == "raw_response_event":
            result.cancel()
    return result.final_output


@pytest.mark.parametrize(
    ("kind", "server"),
    [
        (OpenAIResponsesModel, ResponsesServer),
        (OpenAIChatCompletionsModel, ChatServer),
        (AnthropicModel, MessagesServer),
        (GoogleModel, GeminiServer),
    ],
)
def test_no_client_outlives_its_loop(kind: Any, server: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody closes anything here, and no loop is left with a line that nobody closed."""
    with server(lambda _request: ModelStep("hello there")) as running:
        agent = Agent("a", model=kind("m", api_key="k", base_url=running.base_url))
        gc.freeze()  # what other tests left behind is theirs
        caplog.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ResourceWarning)
            for _ in range(2):
                assert Runner.run_sync(agent, "hi").final_output == "hello there"
                assert asyncio.run(_hear(agent, False)) == "hello there"
                asyncio.run(_hear(agent, True))
            gc.collect()  # what a loop leaves behind is found when it is collected
    assert [each.message for each in warned if issubclass(each.category, ResourceWarning)] == []
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
    assert len(running.requests) == 6
