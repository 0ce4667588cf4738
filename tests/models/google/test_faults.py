"""What goes wrong at Gemini: asked again while nothing was told, then as it came; nonsense is called nonsense."""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors

from keyturn import Agent, ModelBehaviorError, Runner, UserError
from keyturn.models import faults
from keyturn.models.base import ModelResponse, ModelSettings
from keyturn.models.google.model import GoogleModel
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.server import Fault, HttpReply
from tests.playing import read
from tests.table import each

SOON = {"retry-after": "0"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits here; how long is waited is `test_faults.py`'s matter."""
    monkeypatch.setattr(faults, "_FIRST_WAIT", 0.0)


@asynccontextmanager
async def served(*steps: Any, name: str = "gemini-3-test") -> AsyncIterator[tuple[GeminiServer, GoogleModel]]:
    async with GeminiServer(steps) as server:
        model = GoogleModel(name, api_key="k", base_url=server.base_url)
        yield server, model
        await model.close()


async def ask(model: GoogleModel, streamed: bool, *, given: Any = "q", **settings: Any) -> Any:
    asked = (None, given, ModelSettings(**settings), [], None, [], None)
    if not streamed:
        return await model.get_response(*asked)
    events: list[Any] = []
    await listen(model, events, asked)
    last = events[-1].response
    return ModelResponse(last.output, response_id=last.id)


async def listen(model: GoogleModel, told: list[Any], asked: Any = None) -> None:
    async for event in model.stream_response(*(asked or (None, "q", ModelSettings(), [], None, [], None))):
        told.append(event)


def text(reply: Any) -> str:
    return "".join(part["text"] for item in reply.output for part in item.get("content", []) if "text" in part)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_fault_that_passes_is_asked_again(status: int, streamed: bool) -> None:
    async with served(Fault(status=status, headers=SOON), Fault(status=status, headers=SOON), "Done.") as (
        server,
        model,
    ):
        assert text(await ask(model, streamed)) == "Done."
    assert len(server.requests) == 3
    assert server.requests[0].body == server.requests[2].body


async def test_asking_is_bounded_and_the_error_comes_as_it_is(streamed: bool) -> None:
    async with served(*[Fault(status=503, headers=SOON, message="Overloaded")] * 3) as (server, model):
        with pytest.raises(errors.ServerError, match="Overloaded"):
            await ask(model, streamed)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_the_callers_own_mistakes_are_said_once(status: int, streamed: bool) -> None:
    async with served(Fault(status=status), "never") as (server, model):
        with pytest.raises(errors.ClientError):
            await ask(model, streamed)
    assert len(server.requests) == 1


async def test_retry_0_asks_once(streamed: bool) -> None:
    async with served(Fault(status=500), "never") as (server, model):
        with pytest.raises(errors.ServerError):
            await ask(model, streamed, retry=0)
    assert len(server.requests) == 1


async def test_a_dead_line_is_tried_again(streamed: bool) -> None:
    async with served(Fault(events=0), "Done.") as (_, model):
        assert text(await ask(model, streamed)) == "Done."


async def test_a_stream_that_fails_later_is_not_told_twice() -> None:
    async with served(Fault("one two three four five", events=2), "never") as (server, model):
        told: list[Any] = []
        with pytest.raises(httpx2.RemoteProtocolError):
            await listen(model, told)
    assert "".join(event.delta for event in told if event.type.endswith("text.delta")) == "one two "
    assert told[-1].type != "response.completed"
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [{"events": 2}, {"events": 2, "half": True}])
async def test_a_stream_that_ends_early_but_politely_is_no_reply(fault: Any) -> None:
    async with served(Fault("one two three", polite=True, **fault)) as (_, model):
        with pytest.raises(ModelBehaviorError):
            await ask(model, True)


async def test_an_error_in_the_stream_comes_as_it_is() -> None:
    late = HttpReply.stream([{"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}])
    async with served(lambda _request: late, "Done.") as (server, model):
        assert text(await ask(model, True)) == "Done."
    assert len(server.requests) == 2


async def test_nothing_of_half_a_reply_is_in_the_journal() -> None:
    async with served(Fault("one two three", events=2), "Done.") as (server, model):
        agent = Agent("a", model=model)
        stream = Runner.run_streamed(agent, "q")
        with pytest.raises(httpx2.RemoteProtocolError):
            await read(stream)
        state = stream.to_state()
        assert "one two" not in state.to_string()
        done = await Runner.run(agent, state)
    assert done.final_output == "Done."
    assert server.requests[0].json == server.requests[1].json


async def test_slow_bytes_are_one_reply(streamed: bool) -> None:
    said = [reasoning("東京"), assistant_message("to be 🔑\u2028x"), function_call("f", {"x": "東京"}, call_id="c")]
    async with served(Fault(said, pieces=1)) as (_, model):
        reply = await ask(model, streamed)
    assert [item["type"] for item in reply.output] == ["reasoning", "message", "function_call"]
    assert text(reply) == "to be 🔑\u2028x"
    assert json.loads(reply.output[2]["arguments"]) == {"x": "東京"}


NONSENSE = {
    "no JSON": b"<html>busy</html>",
    "half JSON": b'{"candidates": [',
    "another shape": b"[1, 2]",
    "nothing": b"{}",
    "candidates of another kind": b'{"candidates": "hi"}',
    "parts of another kind": b'{"candidates": [{"content": {"parts": "hi"}, "finishReason": "STOP"}]}',
    "a call without a name": b'{"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]}',
    "arguments of another kind": b'{"candidates": [{"content": {"parts": [{"functionCall": '
    b'{"name": "f", "args": [1]}}]}}]}',
    "a constant": b'{"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"n": NaN}}}]}}]}',
    "no base64": b'{"candidates": [{"content": {"parts": [{"text": "x", "thoughtSignature": "%%%"}]}}]}',
    "half a character": b'{"candidates": [{"content": {"parts": [{"text": "\\ud800"}]}, "finishReason": "STOP"}]}',
}


@each("name", NONSENSE)
async def test_nonsense_is_said_to_be_nonsense(name: str) -> None:
    async with served(Fault(body=NONSENSE[name])) as (_, model):
        with pytest.raises(ModelBehaviorError, match="nothing of it was used") as raised:
            await ask(model, False)
    assert "above exception" not in "".join(traceback.format_exception(raised.value)), "no parser's stack is shown"


@each("name", NONSENSE)
async def test_a_stream_of_nonsense_is_said_to_be_nonsense(name: str) -> None:
    reply = HttpReply(200, {"content-type": "text/event-stream"}, parts=(b"data: " + NONSENSE[name] + b"\n\n",))
    async with served(lambda _request: reply) as (_, model):
        with pytest.raises(ModelBehaviorError, match="nothing of it was used"):
            await ask(model, True)


async def test_a_prompt_that_was_blocked_is_a_refusal(streamed: bool) -> None:
    async with served([refusal("Not this.")]) as (_, model):
        reply = await ask(model, streamed)
    assert reply.output[0]["content"] == [{"type": "refusal", "refusal": "Not this."}]


async def test_a_reply_that_was_withheld_is_a_refusal_and_its_calls_are_void(streamed: bool) -> None:
    async with served([assistant_message("Well,"), function_call("f", call_id="c"), refusal("No.")]) as (_, model):
        reply = await ask(model, streamed)
    assert [item["type"] for item in reply.output] == ["message", "message"]
    assert reply.output[1]["content"] == [{"type": "refusal", "refusal": "Gemini withheld the reply: SAFETY."}]


@pytest.mark.each
@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "OTHER", "SOMETHING_NEW"])
async def test_an_end_that_is_none_is_an_error_that_says_which(reason: str, streamed: bool) -> None:
    whole = {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": reason}]}

    def end(request: Any) -> HttpReply:
        return HttpReply.stream([whole]) if "stream" in request.path else HttpReply.json(whole)

    async with served(end) as (_, model):
        with pytest.raises(ModelBehaviorError, match=reason):
            await ask(model, streamed)


@pytest.mark.parametrize("last", [assistant_message("Half a sen"), function_call("f", {"path": "/tm"}, call_id="c")])
async def test_a_reply_that_was_cut_is_not_used(last: Any, streamed: bool) -> None:
    """Least of all a call whose arguments may be half of what was meant."""
    async with served([assistant_message("So:"), {**last, "status": "incomplete"}]) as (_, model):
        with pytest.raises(ModelBehaviorError, match=r"incomplete .*; raise ModelSettings\.max_tokens") as raised:
            await ask(model, streamed)
    failed: Any = raised.value
    assert (failed.status, failed.code) == ("incomplete", "MAX_TOKENS")


async def test_a_call_without_an_id_has_a_label_of_its_own(streamed: bool) -> None:
    """Some calls have an id and some have none: all labels of a reply differ."""
    calls = [function_call("f", {"n": n}, call_id=label) for n, label in enumerate(["call_2", "", "", "fc-3"])]
    async with served(calls) as (_, model):
        reply = await ask(model, streamed)
    assert [item["call_id"] for item in reply.output] == ["call_2", "gemini_call_2", "gemini_call_3", "fc-3"]


async def test_what_its_own_tools_did_goes_back_as_it_came(streamed: bool) -> None:
    code = {"executableCode": {"code": "1+1", "language": "PYTHON"}}
    done = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    step = [{"type": name, **part} for part in (code, done) for name in part]
    async with served([*step, assistant_message("Two.")], "Again.", name="gemini-2.5-flash") as (server, model):
        reply = await ask(model, streamed)
        items = [{"role": "user", "content": "q"}, *reply.output, {"role": "user", "content": "r"}]
        await ask(model, streamed, given=json.loads(json.dumps(items)))
    assert server.requests[1].json["contents"][1]["parts"] == [code, done, {"text": "Two."}]


async def test_without_a_key_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="GOOGLE_API_KEY"):
        await ask(GoogleModel("m"), False)


async def test_what_the_client_does_not_take_is_the_callers_mistake(streamed: bool) -> None:
    async with served("never") as (server, model):
        with pytest.raises(UserError, match="does not take this request"):
            await ask(model, streamed, extra_args={"no_such_setting": 1})
        image = {"type": "input_image", "image_url": "data:image/png;base64,%%%"}
        with pytest.raises(UserError, match="does not take this request"):
            await ask(model, streamed, given=[{"role": "user", "content": [image]}])
        with pytest.raises(UserError, match="does not take this request"):
            await ask(model, streamed, extra_args={"model_armor_config": {"prompt_template_name": "only in Vertex"}})
    assert not server.requests


async def test_a_client_of_the_callers_own() -> None:
    async with GeminiServer(["one", "two"]) as server:
        options = {"base_url": server.base_url}
        client = genai.Client(api_key="mine", http_options=options)
        for given in (client, client.aio):
            model = GoogleModel("m", given)
            assert text(await ask(model, False)) in ("one", "two")
            await model.close()
        with pytest.raises(UserError, match="one or the other"):
            GoogleModel("m", client, api_key="k")
        await client.aio.aclose()
    assert server.requests[0].headers["x-goog-api-key"] == "mine"


async def test_a_timeout_is_an_error_of_the_client() -> None:
    async with served(Fault("slow", events=0, stall=True)) as (_, model):
        with pytest.raises(httpx2.TimeoutException):
            await ask(model, False, timeout=0.05, retry=0)
