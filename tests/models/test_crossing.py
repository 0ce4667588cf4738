"""A run paused over one provider is resumed over any other: nothing that only one of them understands is in the way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from keyturn import AnthropicModel, GoogleModel, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner
from keyturn.models.base import Model
from keyturn.models.scripted.items import assistant_message
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import LoopbackServer
from tests.models.errand import ASKED, DONE, decided, errand, script

Member = tuple[type[LoopbackServer], Callable[..., Model], str]

MEMBERS: dict[str, Member] = {
    "anthropic": (MessagesServer, AnthropicModel, "claude-test"),
    "google": (GeminiServer, GoogleModel, "gemini-3-test"),
    "openai": (ResponsesServer, OpenAIResponsesModel, "gpt-test"),
    "openai-chat": (ChatServer, OpenAIChatCompletionsModel, "gpt-test"),
}

WAYS = [*product(MEMBERS, repeat=2)]


def model_of(member: Member, server: LoopbackServer) -> Model:
    _, made, name = member
    return made(name, api_key="k", base_url=server.base_url)


@pytest.mark.parametrize(("start", "end"), WAYS, ids=[f"{start} to {end}" for start, end in WAYS])
async def test_a_pause_is_resumed_over_another_provider(start: str, end: str) -> None:
    first, second = MEMBERS[start], MEMBERS[end]
    async with first[0](script("c1", "c2")[:1]) as asked, second[0]([DONE, "Again."]) as told:
        one, other = model_of(first, asked), model_of(second, told)
        paused = await Runner.run(errand(one), ASKED)
        agent = errand(other)
        done = await Runner.run(agent, await decided(agent, paused))
        again = await Runner.run(agent, [*done.to_input_list(), {"role": "user", "content": "Again."}])
        await one.close()
        await other.close()
    assert (done.final_output, again.final_output) == (DONE, "Again.")
    assert b"provider_data" not in told.requests[0].body + told.requests[1].body


SEARCHED: dict[str, list[Any]] = {
    "anthropic": [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
    ],
    "google": [{"type": "executableCode", "executableCode": {"code": "1", "language": "PYTHON"}}],
}


@pytest.mark.parametrize("end", MEMBERS)
@pytest.mark.parametrize("start", SEARCHED)
async def test_what_one_provider_ran_itself_is_told_to_no_other(start: str, end: str) -> None:
    first, second = MEMBERS[start], MEMBERS[end]
    async with first[0]([[*SEARCHED[start], assistant_message("Found.")]]) as asked, second[0](["Done."]) as told:
        one, other = model_of(first, asked), model_of(second, told)
        found = await Runner.run(errand(one), ASKED)
        await Runner.run(errand(other), [*found.to_input_list(), {"role": "user", "content": "And?"}])
        await one.close()
        await other.close()
    body = told.requests[0].body
    assert b"Found." in body
    kinds = (b"server_tool_use", b"web_search_tool_result", b"xecutable")
    assert any(kind in body for kind in kinds) is (start == end)
