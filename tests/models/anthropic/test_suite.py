"""AnthropicModel keeps the room's promises, and its loopback server says what the official SDK's types say."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import message_create_params as params
from pydantic import TypeAdapter

from keyturn.models.anthropic.model import AnthropicModel
from keyturn.models.base import ModelSettings
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.anthropic import MessagesServer, events
from keyturn.testing.suites.models import ModelSuite
from tests.models.errand import ASKED, decided, errand, script
from tests.playing import play
from tests.table import each


class Served(AnthropicModel):
    """A model with a server of its own."""

    def __init__(self, server: MessagesServer) -> None:
        super().__init__("claude-test", api_key="k", base_url=server.base_url)
        self.server = server

    async def close(self) -> None:
        await super().close()
        await self.server.close()


class TestAnthropicModel(ModelSuite):
    async def make_model(self, script: list[ModelStep]) -> Served:
        return Served(await MessagesServer(script).start())

    def make_error(self) -> Exception:
        response = httpx2.Response(400, request=httpx2.Request("POST", "http://127.0.0.1"))
        return anthropic.BadRequestError("bad", response=response, body=None)


STEPS: dict[str, Any] = {
    "text": ["Hello."],
    "calls": [[reasoning("Hm."), assistant_message("Wait."), *(function_call("f", {"n": n}) for n in range(2))]],
    "sealed": [[reasoning(encrypted_content="x"), assistant_message("Done.")]],
    "refused": [[assistant_message("Well"), refusal("No.")]],
    "server tool": [
        [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "keys"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "e=="}
                ],
            },
            assistant_message("Found."),
        ]
    ],
}


@pytest.mark.parametrize("name", STEPS)
async def test_what_the_server_says_fits_the_sdks_types(name: str) -> None:
    async with MessagesServer(STEPS[name]) as server, httpx2.AsyncClient() as client:
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        body = {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
        }
        reply = await client.post(f"{server.url}/v1/messages", headers=headers, json=body)
    message = reply.json()
    assert anthropic.types.Message.model_validate(message, strict=True).to_dict() == message
    event_type: TypeAdapter[Any] = TypeAdapter(anthropic.types.RawMessageStreamEvent)
    for event in events(message):
        if event["type"] != "ping":
            event_type.validate_python(event)


async def test_what_the_model_asks_fits_the_sdks_types(streamed: bool) -> None:
    kinds = params.MessageCreateParamsStreaming, params.MessageCreateParamsNonStreaming
    asked: TypeAdapter[Any] = TypeAdapter(kinds[not streamed])
    async with MessagesServer(script("c1", "c2")) as server:
        model = AnthropicModel("claude-test", api_key="k", base_url=server.base_url)
        agent = errand(model, reasoning={"effort": "high"}, tool_choice="auto", parallel_tool_calls=False)
        await play(agent, await decided(agent, await play(agent, ASKED, streamed)), streamed)
        await model.close()
    for request in server.requests:
        assert plain(asked.validate_python(request.json)) == request.json


def plain(value: Any) -> Any:
    """Pydantic leaves an Iterable to be read once; read it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    return [plain(each) for each in value]


@pytest.mark.parametrize("name", STEPS)
async def test_plain_and_streamed_are_one_reply(name: str) -> None:
    async with MessagesServer([*STEPS[name], *STEPS[name]]) as server:
        model = AnthropicModel("claude-test", api_key="k", base_url=server.base_url)
        asked = (None, "q", ModelSettings(), [], None, [], None)
        whole = await model.get_response(*asked)
        *_, last = [event async for event in model.stream_response(*asked)]
        await model.close()
    said, told = (json.dumps(items, ensure_ascii=False) for items in (whole.output, last.response.output))
    # Signatures differ each time, and so do ids that the script did not give.
    assert told.replace(signed(told), "") == said.replace(signed(said), "")
    assert (whole.response_id, whole.request_id) == ("msg_1", "req_1")
    assert (last.response.id, last.response["_request_id"]) == ("msg_2", "req_2")
    assert last.response.usage.total_tokens == whole.usage.total_tokens == 15


def signed(text: str) -> str:
    _, _, rest = text.partition('"signature": "')
    return rest.partition('"')[0] or "-"


CALL: Any = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
Q: Any = {"role": "user", "content": [{"type": "text", "text": "q"}]}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no result": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]},
                      {"role": "assistant", "content": [CALL]}]},
        "without `tool_result` blocks immediately after: c",
    ),
    "a strange result": (
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}]},
        "unexpected `tool_use_id`",
    ),
    "a changed thought": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]},
                      {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "c2ln"},
                                                        {"type": "text", "text": "a"}]}]},
        "Invalid `signature` in `thinking` block",
    ),
    "two of one role": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}] * 2},
        "roles must alternate",
    ),
    "no user first": ({"messages": [{"role": "assistant", "content": []}]}, "first message"),
    "an empty text": ({"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}, "non-whitespace"),
    "the same id twice": (
        {"messages": [Q, {"role": "assistant", "content": [CALL] * 2},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]},
        "ids must be unique",
    ),
    "a strange id": (
        {"messages": [Q, {"role": "assistant", "content": [{**CALL, "id": "a.b"}]}]},
        "should match pattern",
    ),
    "a result behind a text": (
        {"messages": [Q, {"role": "assistant", "content": [CALL]},
                      {"role": "user", "content": [Q["content"][0], {"type": "tool_result", "tool_use_id": "c"}]}]},
        "must come first",
    ),
    "thinking at the end": (
        {"messages": [Q, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "sealed+/x"}]}]},
        "cannot be `thinking`",
    ),
    "a changed seal": (
        {"messages": [Q, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}]},
        "Invalid `data`",
    ),
    "calls without tools": (
        {"tools": [], "messages": [Q, {"role": "assistant", "content": [CALL]},
                                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]},
        "must define tools",
    ),
    "tools twice": ({"tools": [{"name": "f", "input_schema": {"type": "object"}}] * 2, "messages": [Q]}, "unique"),
    "a choice of nothing": ({"tools": [], "tool_choice": {"type": "any"}, "messages": [Q]}, "while providing tools"),
    "a choice of another tool": ({"tool_choice": {"type": "tool", "name": "g"}, "messages": [Q]}, "not found"),
    "thinking by force": (
        {"tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}, "messages": [Q]}, "forces tool use"
    ),
    "thinking beyond the limit": (
        {"thinking": {"type": "enabled", "budget_tokens": 2048}, "messages": [Q]}, "greater than"
    ),
    "an open schema": (
        {"output_config": {"format": {"schema": {"anyOf": [{"type": "object"}]}}}, "messages": [Q]}, "set to false"
    ),
    "no limit": ({"max_tokens": None, "messages": []}, "max_tokens: Field required"),
}  # fmt: skip


@each("name", REFUSED)
async def test_the_server_is_as_strict_as_the_real_one(name: str) -> None:
    body, why = REFUSED[name]
    async with MessagesServer(["never"]) as server, httpx2.AsyncClient() as client:
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        asked = {"model": "m", "max_tokens": 9, "tools": [{"name": "f", "input_schema": {"type": "object"}}], **body}
        reply = await client.post(f"{server.url}/v1/messages", headers=headers, json=asked)
        unknown = await client.post(f"{server.url}/v1/messages", json=asked)
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert why in reply.json()["error"]["message"]
    assert unknown.status_code == 401
