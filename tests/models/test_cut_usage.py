"""A reply that is cut is refused and paid for: over every wire format the run counts it, and a limit sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyturn import (
    Agent,
    AnthropicModel,
    GoogleModel,
    ModelBehaviorError,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Usage,
)
from keyturn.models.base import TokenDetails
from keyturn.models.scripted.model import ModelStep, assistant_message, function_call
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.responses import ResponsesServer, unfinished
from keyturn.testing.loopback.server import HttpReply, HttpRequest
from tests.playing import play

CUT = ModelStep([{**assistant_message("Half a sen"), "status": "incomplete"}], usage=Usage(1, 11, output_tokens=7))
HEAD = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
COUNTED = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def cut_response(request: HttpRequest) -> HttpReply:
    counts = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    why = {"reason": "max_output_tokens"}
    return unfinished(request, "incomplete", incomplete_details=why, usage=counts)


def cut_completion(request: HttpRequest) -> HttpReply:
    said = {"index": 0, "finish_reason": "length"}
    if not request.json.get("stream"):
        message = {"role": "assistant", "content": "Half a sen"}
        return HttpReply.json({**HEAD, "choices": [{**said, "message": message}], "usage": COUNTED})
    begun = {**HEAD, "choices": [{**said, "delta": {"content": "Half a sen"}}]}
    return HttpReply.stream([begun, {**HEAD, "choices": [], "usage": COUNTED}, "[DONE]"])


Opened = tuple[Any, Callable[[str], Any]]
FORMATS: dict[str, Callable[[], Opened]] = {
    "responses": lambda: (
        ResponsesServer([cut_response]),
        lambda url: OpenAIResponsesModel("m", api_key="k", base_url=url),
    ),
    "chat": lambda: (
        ChatServer([cut_completion]),
        lambda url: OpenAIChatCompletionsModel("m", api_key="k", base_url=url),
    ),
    "anthropic": lambda: (MessagesServer([CUT]), lambda url: AnthropicModel("m", api_key="k", base_url=url)),
    "google": lambda: (GeminiServer([CUT]), lambda url: GoogleModel("m", api_key="k", base_url=url)),
}


@pytest.mark.parametrize("wire", list(FORMATS))
async def test_a_cut_reply_is_counted(wire: str, streamed: bool) -> None:
    server, make = FORMATS[wire]()
    async with server:
        model = make(server.base_url)
        with pytest.raises(ModelBehaviorError, match="incomplete") as raised:
            await play(Agent("a", model=model), "go", streamed)
        await model.close()
    usage = raised.value.run_data.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (1, 11, 7)
    assert [entry.model for entry in usage.request_usage_entries] == ["m"]


CALL = function_call("pay", '{"to":"ad', call_id="c1")


def response_cut_in_a_call(request: HttpRequest) -> HttpReply:
    why = {"reason": "max_output_tokens"}
    return unfinished(request, "incomplete", incomplete_details=why, output=[{**CALL, "status": "incomplete"}])


def completion_cut_in_a_call(request: HttpRequest) -> HttpReply:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"to":"ad'}}
    said = {"index": 0, "finish_reason": "length"}
    if not request.json.get("stream"):
        return HttpReply.json({**HEAD, "choices": [{**said, "message": {"role": "assistant", "tool_calls": [call]}}]})
    return HttpReply.stream([{**HEAD, "choices": [{**said, "delta": {"tool_calls": [call]}}]}, "[DONE]"])


CUT_CALL = ModelStep([{**function_call("pay", {}, call_id="c1"), "status": "incomplete"}])
IN_A_CALL: dict[str, Any] = {
    "responses": (ResponsesServer, OpenAIResponsesModel, response_cut_in_a_call),
    "chat": (ChatServer, OpenAIChatCompletionsModel, completion_cut_in_a_call),
    "anthropic": (MessagesServer, AnthropicModel, CUT_CALL),
    "google": (GeminiServer, GoogleModel, CUT_CALL),
}  # fmt: skip


@pytest.mark.parametrize("wire", IN_A_CALL)
async def test_a_reply_that_is_cut_in_a_call_says_in_which(wire: str, streamed: bool) -> None:
    serves, kind, step = IN_A_CALL[wire]
    async with serves([step]) as server:
        model = kind("m", api_key="k", base_url=server.base_url)
        with pytest.raises(ModelBehaviorError, match=r"is incomplete \(.*\) in its call of 'pay'; raise"):
            await play(Agent("a", model=model), "go", streamed)
        await model.close()


@pytest.mark.parametrize(
    ("server", "kind", "written"),
    [
        (ResponsesServer, OpenAIResponsesModel, 50), (MessagesServer, AnthropicModel, 50),
        (GeminiServer, GoogleModel, 0),  # Gemini does not count what it keeps
    ],
)  # fmt: skip
async def test_what_a_cache_gave_and_what_was_written_to_it_is_told_apart(
    server: Any, kind: Any, written: int, streamed: bool
) -> None:
    counts = Usage(1, 100, TokenDetails(cached_tokens=30, cache_write_tokens=written), 7, total_tokens=107)
    async with server([ModelStep("hi", usage=counts)]) as served:
        model = kind("m", api_key="k", base_url=served.base_url)
        result = await play(Agent("a", model=model), "go", streamed)
        await model.close()
    assert result.usage == counts
