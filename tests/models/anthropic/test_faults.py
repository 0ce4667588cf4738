"""What goes wrong at Anthropic: asked again while nothing was told, then as it came; nonsense is called nonsense."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx2
import pytest

from keyturn import Agent, ModelBehaviorError, Runner, UserError
from keyturn.models import faults
from keyturn.models.anthropic.model import AnthropicModel
from keyturn.models.base import ModelResponse, ModelSettings
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.testing.loopback.anthropic import MessagesServer, events
from keyturn.testing.loopback.server import Fault, HttpReply
from tests.playing import read
from tests.table import each

SOON = {"retry-after": "0"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits here; how long is waited is `test_faults.py`'s matter."""
    monkeypatch.setattr(faults, "_FIRST_WAIT", 0.0)


@asynccontextmanager
async def served(*steps: Any, **options: Any) -> AsyncIterator[tuple[MessagesServer, AnthropicModel]]:
    async with MessagesServer(steps) as server:
        model = AnthropicModel("claude-test", api_key="k", base_url=server.base_url, **options)
        yield server, model
        await model.close()


async def ask(model: AnthropicModel, streamed: bool, *, tools: Any = (), given: Any = "q", **settings: Any) -> Any:
    asked = (None, given, ModelSettings(**settings), list(tools), None, [], None)
    if not streamed:
        return await model.get_response(*asked)
    events = [event async for event in model.stream_response(*asked)]
    last = events[-1].response
    return ModelResponse(last.output, response_id=last.id, request_id=last["_request_id"])


async def listen(model: AnthropicModel, told: list[Any]) -> None:
    async for event in model.stream_response(None, "q", ModelSettings(), [], None, [], None):
        told.append(event)


def text(reply: Any) -> str:
    return "".join(part["text"] for item in reply.output for part in item.get("content", []) if "text" in part)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_a_fault_that_passes_is_asked_again(status: int, streamed: bool) -> None:
    async with served(Fault(status=status, headers=SOON), Fault(status=status, headers=SOON), "Done.") as (
        server,
        model,
    ):
        assert text(await ask(model, streamed)) == "Done."
    assert len(server.requests) == 3
    assert server.requests[0].body == server.requests[2].body


async def test_asking_is_bounded_and_the_error_comes_as_it_is(streamed: bool) -> None:
    async with served(*[Fault(status=529, headers=SOON, message="Overloaded")] * 3) as (server, model):
        with pytest.raises(anthropic.OverloadedError, match="Overloaded"):
            await ask(model, streamed)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, "BadRequestError"), (401, "AuthenticationError"), (403, "PermissionDeniedError"), (404, "NotFoundError")],
)
async def test_the_callers_own_mistakes_are_said_once(status: int, error: str, streamed: bool) -> None:
    async with served(Fault(status=status), "never") as (server, model):
        with pytest.raises(getattr(anthropic, error)):
            await ask(model, streamed)
    assert len(server.requests) == 1


async def test_retry_0_asks_once(streamed: bool) -> None:
    async with served(Fault(status=500), "never") as (server, model):
        with pytest.raises(anthropic.InternalServerError):
            await ask(model, streamed, retry=0)
    assert len(server.requests) == 1


async def test_a_dead_line_is_tried_again(streamed: bool) -> None:
    async with served(Fault(events=0), "Done.") as (_, model):
        assert text(await ask(model, streamed)) == "Done."


async def test_a_stream_that_fails_before_it_said_anything_is_asked_again() -> None:
    """An overload is often said in the stream, behind a good status."""
    begun = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "usage": {}}}
    late = HttpReply.stream(
        [begun, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}], named=True
    )
    async with served(lambda _request: late, Fault("cut", events=1), "Done.") as (server, model):
        assert text(await ask(model, True)) == "Done."
    assert len(server.requests) == 3


async def test_a_stream_that_fails_later_is_not_told_twice() -> None:
    words = "one two three four five"
    async with served(Fault(words, events=5), "never") as (server, model):
        told: list[Any] = []
        with pytest.raises(httpx2.RemoteProtocolError):
            await listen(model, told)
        assert "".join(event.delta for event in told if event.type.endswith("text.delta")) == "one two "
    assert told[-1].type != "response.completed"
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [{"events": 5}, {"events": 5, "half": True}])
async def test_a_stream_that_ends_early_but_politely_is_no_reply(fault: Any) -> None:
    async with served(Fault("one two three", polite=True, **fault)) as (_, model):
        with pytest.raises(ModelBehaviorError):
            await ask(model, True)


async def test_nothing_of_half_a_reply_is_in_the_journal() -> None:
    async with served(Fault("one two three", events=5), "Done.") as (server, model):
        agent = Agent("a", model=model)
        stream = Runner.run_streamed(agent, "q")
        with pytest.raises(httpx2.RemoteProtocolError):
            await read(stream)
        state = stream.to_state()
        assert "one two" not in state.to_string()
        done = await Runner.run(agent, state)
    assert done.final_output == "Done."
    assert server.requests[0].json["messages"] == server.requests[1].json["messages"]


async def test_slow_bytes_are_one_reply(streamed: bool) -> None:
    said = [reasoning("東京"), assistant_message("to be 🔑"), function_call("f", {"x": "東京"}, call_id="c")]
    async with served(Fault(said, pieces=1)) as (_, model):
        reply = await ask(model, streamed)
    assert [item["type"] for item in reply.output] == ["reasoning", "message", "function_call"]
    assert json.loads(reply.output[2]["arguments"]) == {"x": "東京"}


NONSENSE = {
    "no JSON": b"<html>busy</html>",
    "half JSON": b'{"type": "message", "content": [',
    "another shape": b"[1, 2]",
    "no content": b'{"type": "message", "role": "assistant", "usage": {}}',
    "content of another kind": b'{"type": "message", "role": "assistant", "content": "hi", "usage": {}}',
    "another role": b'{"type": "message", "role": "user", "content": [], "usage": {}}',
    "a call without a name": b'{"type":"message","role":"assistant","usage":{},"content":'
    b'[{"type":"tool_use","input":{}}]}',
    "arguments of another kind": b'{"type":"message","role":"assistant","usage":{},"content":'
    b'[{"type":"tool_use","id":"c","name":"f","input":[1]}]}',
    "a constant": b'{"type":"message","role":"assistant","usage":{},"content":'
    b'[{"type":"tool_use","id":"c","name":"f","input":{"n": NaN}}]}',
    "half a character": b'{"type":"message","role":"assistant","usage":{},"content":'
    b'[{"type":"text","text":"\\ud800"}]}',
    "no text at all": b"\xff\xfe",
}


@each("name", NONSENSE)
async def test_nonsense_is_said_to_be_nonsense(name: str) -> None:
    async with served(Fault(body=NONSENSE[name])) as (_, model):
        with pytest.raises(ModelBehaviorError, match="Anthropic sent a malformed reply") as raised:
            await ask(model, False)
    assert "above exception" not in "".join(traceback.format_exception(raised.value)), "no parser's stack is shown"


START = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "usage": {}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
STOP = {"type": "message_stop"}


@each(
    "events",
    [
        [{"type": "message_start"}],
        [START, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}],
        [START, BLOCK, {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "x"}}],
        [START, BLOCK, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 3}}],
        [START, BLOCK, BLOCK],
        [START, BLOCK, STOP],
        [START, STOP],
        [{"type": "event: x\ndata: {"}],
        ["{half", START],
    ],
)
async def test_a_stream_of_nonsense_is_said_to_be_nonsense(events: Any) -> None:
    told = [f"{each}" if isinstance(each, str) else each for each in events]
    reply = HttpReply(200, {"content-type": "text/event-stream"}, parts=tuple(_named(each) for each in told))
    async with served(lambda _request: reply) as (_, model):
        with pytest.raises(ModelBehaviorError):
            await ask(model, True)


def _named(event: Any) -> bytes:
    if isinstance(event, str):
        return b"event: message_start\ndata: " + event.encode() + b"\n\n"
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


async def test_a_refusal_is_an_answer_and_its_calls_are_void(streamed: bool) -> None:
    async with served([function_call("f", call_id="c"), refusal("I will not.")]) as (_, model):
        reply = await ask(model, streamed)
    assert [item["type"] for item in reply.output] == ["message"]
    assert reply.output[0]["content"] == [{"type": "refusal", "refusal": "I will not."}]


@pytest.mark.each
@pytest.mark.parametrize("last", [assistant_message("Half a sen"), function_call("f", {"path": "/tm"}, call_id="c")])
async def test_a_reply_that_was_cut_is_not_used(last: Any, streamed: bool) -> None:
    """Least of all a call whose arguments may be half of what was meant."""
    async with served([assistant_message("So:"), {**last, "status": "incomplete"}]) as (_, model):
        with pytest.raises(ModelBehaviorError, match=r"incomplete .*; raise ModelSettings\.max_tokens") as raised:
            await ask(model, streamed)
    failed: Any = raised.value
    assert (failed.status, failed.code) == ("incomplete", "max_tokens")


SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "keys"}}


async def test_a_pause_of_the_model_is_followed(streamed: bool) -> None:
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    async with served([assistant_message("Let me look."), SEARCH], [found, assistant_message("Found.")]) as (
        server,
        model,
    ):
        reply = await ask(model, streamed)
    assert [item["type"] for item in reply.output] == [
        "message",
        "server_tool_use",
        "web_search_tool_result",
        "message",
    ]
    assert reply.response_id == "msg_1"
    assert server.requests[1].json["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Let me look."}, SEARCH],
    }


async def test_what_its_own_tools_did_goes_back_as_it_came(streamed: bool) -> None:
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "x", "encrypted": "e=="}]}
    async with served([SEARCH, found, assistant_message("Found.")], "Again.") as (server, model):
        reply = await ask(model, streamed)
        await ask(
            model, streamed, given=[{"role": "user", "content": "q"}, *reply.output, {"role": "user", "content": "r"}]
        )
    assert server.requests[1].json["messages"][1]["content"] == [SEARCH, found, {"type": "text", "text": "Found."}]


async def test_a_model_that_pauses_for_ever_is_left(streamed: bool) -> None:
    async with served(*[[SEARCH]] * 8) as (server, model):
        with pytest.raises(ModelBehaviorError, match="paused 8 times"):
            await ask(model, streamed)
    assert len(server.requests) == 8


async def test_a_call_without_an_id_has_a_label_of_its_own(streamed: bool) -> None:
    calls = [function_call("f", {"n": n}, call_id="") for n in range(2)]
    before = [
        {"role": "user", "content": "q"},
        function_call("f", call_id="call_1"),
        {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    ]
    tool = type("Tool", (), {"name": "f", "description": "", "params_json_schema": {"type": "object"}})()
    async with served([*calls]) as (_, model):
        reply = await ask(model, streamed, given=before, tools=[tool])
    assert [item["call_id"] for item in reply.output] == ["claude_call_2", "claude_call_3"]


async def test_a_server_that_tells_arguments_at_once_is_understood() -> None:
    """Some compatible servers have no deltas for them."""
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {"n": 1}}
    told = [
        START,
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        STOP,
    ]
    async with served(lambda _request: HttpReply.stream(told, named=True)) as (_, model):
        reply = await ask(model, True)
    assert reply.output[0]["arguments"] == '{"n":1}'


async def test_arguments_stay_as_the_model_wrote_them() -> None:
    """What may be read two ways is refused where calls are read, not mended here."""
    twice = '{"to": "ada", "to": "bob"}'
    told = [
        START,
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": twice}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        STOP,
    ]
    async with served(lambda _request: HttpReply.stream(told, named=True)) as (_, model):
        reply = await ask(model, True)
    assert reply.output[0]["arguments"] == twice


async def test_citations_are_annotations_and_go_back(streamed: bool) -> None:
    cited = {
        "type": "web_search_result_location",
        "url": "https://a.example",
        "title": "A",
        "encrypted_index": "e==",
        "cited_text": "t",
    }
    block = {"type": "text", "text": "So it is.", "citations": [cited]}
    whole = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [block],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {"input_tokens": 1, "output_tokens": 1, "output_tokens_details": {"thinking_tokens": 0}},
    }

    def cite(request: Any) -> HttpReply:
        return HttpReply.stream(events(whole), named=True) if request.json.get("stream") else HttpReply.json(whole)

    async with served(cite, "ok") as (server, model):
        reply = await ask(model, streamed)
        await ask(
            model, streamed, given=[{"role": "user", "content": "q"}, *reply.output, {"role": "user", "content": "r"}]
        )
    assert reply.output[0]["content"][0]["annotations"][0]["url"] == "https://a.example"
    assert server.requests[1].json["messages"][1]["content"] == [block]


async def test_without_a_key_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    async with MessagesServer() as server:
        model = AnthropicModel("m", base_url=server.base_url)
        with pytest.raises(UserError, match="ANTHROPIC_API_KEY"):
            await ask(model, False)
        await model.close()


async def test_a_client_of_the_callers_own() -> None:
    async with MessagesServer(["one", Fault(status=500)]) as server:
        client = anthropic.AsyncAnthropic(api_key="mine", base_url=server.base_url, max_retries=0)
        model = AnthropicModel("m", client)
        assert text(await ask(model, False)) == "one"
        with pytest.raises(anthropic.InternalServerError):
            await ask(model, False)
        await model.close()
        assert not client.is_closed()
        with pytest.raises(UserError, match="one or the other"):
            AnthropicModel("m", client, api_key="k")
        with pytest.raises(UserError, match="must be an AsyncAnthropic, not Anthropic"):
            AnthropicModel("m", anthropic.Anthropic(api_key="k"))
        await client.close()
    assert server.requests[0].headers["authorization"] == "Bearer mine"


async def test_a_timeout_is_an_error_of_the_client() -> None:
    async with served(Fault("slow", events=0, stall=True)) as (_, model):
        with pytest.raises(anthropic.APITimeoutError):
            await asyncio.wait_for(ask(model, False, timeout=0.05, retry=0), 5)


def _kin(name: str, lines: Any) -> Any:
    if name == "foundry":
        return anthropic.AsyncAnthropicFoundry(api_key="k", resource="r", http_client=lines)
    return anthropic.AsyncAnthropicVertex(access_token="k", project_id="p", region="us", http_client=lines)


@pytest.mark.parametrize(("name", "place"), [("foundry", "/anthropic/v1/messages"), ("vertex", "/models/claude-test:")])
async def test_clients_of_other_clouds(name: str, place: str, streamed: bool) -> None:
    whole = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    whole |= {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": None}
    whole |= {"usage": {"input_tokens": 1, "output_tokens": 1, "output_tokens_details": None}}
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request)
        told = HttpReply.stream(events(whole), named=True) if streamed else HttpReply.json(whole)
        body = b"".join(told.parts) if told.parts is not None else told.body
        return httpx2.Response(200, headers=dict(told.headers), content=body)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as lines:
        assert text(await ask(AnthropicModel("claude-test", _kin(name, lines)), streamed)) == "Done."
    assert place in str(asked[0].url)
