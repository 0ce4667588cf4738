"""Every way in which OpenAI's APIs, or a line to them, can go wrong: what is raised, asked again, and kept."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from keyturn import Agent, ModelBehaviorError, Runner
from keyturn.core import events as ev
from keyturn.models.base import ModelSettings
from keyturn.models.openai import wire
from keyturn.models.openai.chat import OpenAIChatCompletionsModel
from keyturn.models.openai.reply import ResponseFailed
from keyturn.models.openai.responses import OpenAIResponsesModel
from keyturn.models.scripted.items import assistant_message, function_call
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer, unfinished
from keyturn.testing.loopback.server import Fault, HttpReply
from tests.models.openai.serving import (
    NOW,
    ask,
    bodies,
    both_apis,
    broken_off,
    client_of,
    events_of,
    kinds,
    model_of,
    served,
)
from tests.playing import read
from tests.table import each

TWICE = ModelSettings(retry=2)
STORY = [assistant_message("one two three"), function_call("pay", {"to": "ada"}, call_id="c1")]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long is waited before each further try; nobody really waits."""
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(wire, "pause", pause)
    return waited


# --------------------------------------------------------------------------------------------- errors come as they are


@both_apis
@each(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
async def test_an_error_status_is_the_sdks_error(api: Any, streamed: bool, status: int, kind: type[Exception]) -> None:
    async with served(api([Fault(status=status, message="because")])) as model:
        with pytest.raises(kind, match="because") as raised:
            await ask(model, streamed=streamed)
    assert type(raised.value) is kind


@both_apis
async def test_nobody_there_is_a_connection_error(api: Any, streamed: bool) -> None:
    async with api() as server:
        client = client_of(server)
    async with client:
        with pytest.raises(openai.APIConnectionError):
            await ask(model_of(server, client), streamed=streamed)


@pytest.mark.each
@both_apis
async def test_a_timeout_is_the_sdks_error(api: Any, streamed: bool) -> None:
    never = asyncio.Event()
    async with served(api([ModelStep("late", delay=never.wait)])) as model:
        with pytest.raises(openai.APITimeoutError):
            await ask(model, settings=ModelSettings(timeout=0.02), streamed=streamed)


@both_apis
async def test_a_stream_that_falls_silent_is_a_timeout(api: Any) -> None:
    async with served(api([Fault(STORY, events=3, stall=True)])) as model:
        events, error = await broken_off(model, settings=ModelSettings(timeout=0.05))
    assert isinstance(error, openai.APITimeoutError)
    assert events
    assert "completed" not in kinds(events)


# ----------------------------------------------------------------------------------------------------- asked again


@both_apis
async def test_it_is_asked_again_when_the_provider_says(api: Any, streamed: bool, waits: list[float]) -> None:
    script = [
        Fault(status=429, headers={"retry-after": "7"}),
        Fault(status=500, headers={"retry-after-ms": "250"}),
        "ok",
    ]
    server = api(script)
    async with served(server) as model:
        reply = await ask(model, settings=TWICE, streamed=streamed)
    assert reply.output[0].content[0].text == "ok"
    assert waits == [7.0, 0.25]
    assert bodies(server) == [bodies(server)[0]] * 3


@both_apis
async def test_without_advice_the_waits_grow(api: Any, streamed: bool, waits: list[float]) -> None:
    async with served(api([Fault(status=503), Fault("never", events=0), "ok"])) as model:
        await ask(model, settings=TWICE, streamed=streamed)
    assert 0.37 < waits[0] <= 0.5 < waits[1] <= 1.0


@both_apis
async def test_tries_are_counted(api: Any, streamed: bool, waits: list[float]) -> None:
    server = api(lambda _request: Fault(status=503))
    async with served(server) as model:
        with pytest.raises(openai.InternalServerError):
            await ask(model, settings=TWICE, streamed=streamed)
    assert (server.answered, len(waits)) == (3, 2)


@both_apis
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=400),
        Fault(status=401),
        Fault(status=404),
        Fault(status=429, headers={"retry-after": "3600"}),
        Fault(status=503, headers={"x-should-retry": "false"}),
        lambda _request: HttpReply.json({"error": {"message": "no credit", "code": "insufficient_quota"}}, 429),
    ],
    ids=["400", "401", "404", "an hour", "advice", "no credit"],
)
async def test_what_lasts_is_not_asked_again(api: Any, streamed: bool, fault: Any, waits: list[float]) -> None:
    server = api([fault, "never"])
    async with served(server) as model:
        with pytest.raises(openai.APIStatusError):
            await ask(model, settings=TWICE, streamed=streamed)
    assert (server.answered, waits) == (1, [])


@both_apis
async def test_a_client_of_ones_own_asks_again_by_itself(api: Any, streamed: bool) -> None:
    async with api([Fault(status=500, headers=NOW), "ok", Fault(status=500), "never"]) as server:
        async with client_of(server, max_retries=1) as client:
            assert (await ask(model_of(server, client), streamed=streamed)).output
            assert server.answered == 2
        async with client_of(server) as client:
            with pytest.raises(openai.InternalServerError):
                await ask(model_of(server, client), streamed=streamed)
    assert server.answered == 3


@both_apis
async def test_a_client_of_ours_is_asked_again_twice(api: Any, waits: list[float]) -> None:
    kind = {ResponsesServer: OpenAIResponsesModel, ChatServer: OpenAIChatCompletionsModel}[api]
    async with api([Fault(status=500), Fault(status=500), "ok"]) as server:
        model = kind("m", api_key="k", base_url=server.base_url)
        assert (await ask(model)).output
        await model.close()
    assert len(waits) == 2


@both_apis
async def test_a_stream_that_has_begun_is_never_asked_for_again(api: Any, waits: list[float]) -> None:
    server = api([Fault(STORY, events=1), "never"])
    async with served(server) as model:
        events, error = await broken_off(model, settings=TWICE)
    assert isinstance(error, openai.APIConnectionError)
    assert kinds(events) == ["created"]
    assert (server.answered, waits) == (1, [])


# What a conversation at the provider may have taken in is not told to it twice.
SURE = [Fault(status=429)]
UNSURE = [Fault(status=500), Fault("never", events=0), Fault("never", half=True)]


@pytest.mark.parametrize("fault", [*SURE, *UNSURE])
async def test_a_kept_conversation_is_told_nothing_twice(streamed: bool, fault: Fault, waits: list[float]) -> None:
    server = ResponsesServer([fault, "ok"])
    async with served(server) as model:
        asked = ask(model, settings=TWICE, streamed=streamed, conversation_id="conv_1")
        if fault in SURE:
            assert (await asked).output
        else:
            with pytest.raises(openai.APIError):
                await asked
    assert server.answered == (2 if fault in SURE else 1)


async def test_a_kept_conversation_that_was_never_reached_is_asked_again(waits: list[float]) -> None:
    async with ResponsesServer() as server:
        client = client_of(server)
    async with client:
        with pytest.raises(openai.APIConnectionError):
            await ask(model_of(server, client), settings=TWICE, conversation_id="conv_1")
    assert len(waits) == 2


# -------------------------------------------------------------------------------------------------------- nonsense


@both_apis
@each(
    ("body", "complaint"),
    [
        (b'{"id": "r", "output": [', "not JSON"),
        (b"<html>Bad gateway</html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"id": "r", "choices": NaN}', "not JSON"),
        (b'{"id": "\\ud800", "choices": []}', "not JSON"),
        (b"[1, 2]", "a JSON list"),
        (b'"hello"', "a JSON str"),
        (b"{}", "no list of output items|no message"),
        (b'{"output": {}, "choices": {}}', "no list of output items|no message"),
        (b'{"output": [5], "choices": [5]}', "no type|no message"),
        (b'{"output": [{"a": 1}], "choices": [{"message": "hi"}]}', "no type|no message"),
    ],
)
async def test_a_nonsense_answer_says_what_is_wrong(api: Any, streamed: bool, body: bytes, complaint: str) -> None:
    if streamed:
        complaint = "ended before its reply was complete|not JSON"
    async with served(api([Fault(body=body)])) as model:
        with pytest.raises(ModelBehaviorError, match=complaint) as raised:
            await ask(model, streamed=streamed)
    assert raised.value.__cause__ is None
    assert "Bad gateway" not in str(raised.value)


@each(
    ("item", "complaint"),
    [
        ({"type": "function_call", "call_id": "c", "name": "pay", "arguments": {"to": 1}}, "'arguments' is no text"),
        ({"type": "function_call", "call_id": None, "name": "pay", "arguments": "{}"}, "'call_id' is no text"),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "'name' is no text"),
        ({"type": "custom_tool_call", "call_id": "c", "name": "sql"}, "'input' is no text"),
        ({"type": "message", "role": "assistant"}, "message without content"),
        ({"type": 5}, "has no type"),
    ],
)
async def test_an_item_that_is_nonsense(item: Any, complaint: str, streamed: bool) -> None:
    whole = {"id": "r", "status": "completed", "output": [item]}
    event = {"type": "response.completed", "response": whole, "sequence_number": 0}
    reply = HttpReply.stream([event], named=True) if streamed else HttpReply.json(whole)
    async with served(ResponsesServer([lambda _request: reply])) as model:
        with pytest.raises(ModelBehaviorError, match=complaint):
            await ask(model, streamed=streamed)


async def test_a_text_that_no_log_can_hold(streamed: bool) -> None:
    """A lone surrogate is no Unicode: better an error now than a run that cannot be written."""
    body = b'{"id": "r", "status": "completed", "output": [{"type": "odd", "x": "\\ud83d"}]}'
    event = b'data: {"type": "response.completed", "sequence_number": 0, "response": ' + body + b"}\n\n"
    headers = {"content-type": "text/event-stream"}
    reply = HttpReply(headers=headers, body=event) if streamed else HttpReply(body=body)
    async with served(ResponsesServer([lambda _request: reply])) as model:
        with pytest.raises(ModelBehaviorError, match=r"cannot be written as JSON|not JSON"):
            await ask(model, streamed=streamed)


@both_apis
@each("data", ["{broken", '{"type": "response.completed"', "NaN]", '"text"', "5", "[]", "{}", '{"choices": 5}'])
async def test_an_event_that_is_nonsense(api: Any, data: str) -> None:
    reply = HttpReply.stream([data, "[DONE]"])
    async with served(api([lambda _request: reply])) as model:
        with pytest.raises(ModelBehaviorError):
            await events_of(model)


async def test_an_event_that_is_no_text() -> None:
    reply = HttpReply(headers={"content-type": "text/event-stream"}, body=b"data: \xff\xfe\n\n")
    for api in (ResponsesServer, ChatServer):
        async with served(api([lambda _request: reply])) as model:
            with pytest.raises(ModelBehaviorError, match="not JSON"):
                await events_of(model)


async def test_a_last_event_without_a_response() -> None:
    reply = HttpReply.stream([{"type": "response.completed", "sequence_number": 0}], named=True)
    async with served(ResponsesServer([lambda _request: reply])) as model:
        with pytest.raises(ModelBehaviorError, match="without a response"):
            await events_of(model)


# ----------------------------------------------------------------------------------------------- replies that end badly
@pytest.mark.each
@pytest.mark.parametrize(
    ("status", "details", "code", "complaint"),
    [
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens", "raise .*max_tok"),
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, "content_filter", "filter stopped it"),
        ("incomplete", {}, "for no reason given", "is incomplete"),
        ("failed", {"error": {"code": "server_error", "message": "we fell over"}}, "server_error", "we fell over"),
        ("failed", {}, "no code", "is failed"),
    ],
)
async def test_a_response_that_is_not_complete(
    status: str, details: Any, code: str, complaint: str, streamed: bool
) -> None:
    async with served(ResponsesServer([lambda request: unfinished(request, status, **details)])) as model:
        with pytest.raises(ResponseFailed, match=complaint) as raised:
            await ask(model, streamed=streamed)
    assert (raised.value.status, raised.value.code) == (status, code)


@pytest.mark.parametrize("status", ["cancelled", "queued", "in_progress"])
async def test_a_response_that_is_still_something_else(status: str) -> None:
    async with served(ResponsesServer([lambda request: unfinished(request, status)])) as model:
        with pytest.raises(ResponseFailed, match=status):
            await ask(model)


@pytest.mark.parametrize(
    ("reason", "complaint"), [("length", "raise .*max_tokens"), ("content_filter", "filter"), ("error", "failed")]
)
async def test_a_completion_that_is_not_complete(reason: str, complaint: str, streamed: bool) -> None:
    said = {"index": 0, "finish_reason": reason}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    if streamed:
        reply = HttpReply.stream([{**head, "choices": [{**said, "delta": {"content": "to b"}}]}, "[DONE]"])
    else:
        reply = HttpReply.json({**head, "choices": [{**said, "message": {"role": "assistant", "content": "to b"}}]})
    async with served(ChatServer([lambda _request: reply])) as model:
        with pytest.raises(ResponseFailed, match=complaint):
            await ask(model, streamed=streamed)


@both_apis
async def test_an_error_in_the_middle_of_a_stream(api: Any) -> None:
    """Both ways of saying it: under "error", and as an event of that type."""
    server = api([])
    for told in ({"error": {"message": "overloaded", "code": "server_error"}}, error_event()):
        reply = HttpReply.stream([told], named="type" in told)
        if api is ChatServer and "type" in told:
            continue
        async with served(api([lambda _request, reply=reply: reply])) as model:
            with pytest.raises(openai.APIError, match="overloaded") as raised:
                await events_of(model)
            assert raised.value.code == "server_error"
    assert server.answered == 0


def error_event() -> Any:
    return {"type": "error", "code": "server_error", "message": "overloaded", "param": None, "sequence_number": 0}


async def test_an_error_that_comes_before_anything_is_asked_again(waits: list[float]) -> None:
    server = ResponsesServer([lambda _request: HttpReply.stream([error_event()], named=True), "ok"])
    async with served(server) as model:
        assert (await ask(model, settings=TWICE, streamed=True)).output[0].content[0].text == "ok"
    assert len(waits) == 1


@both_apis
async def test_an_error_under_a_good_status(api: Any) -> None:
    """Some gateways answer 200 and an error."""
    for error in ({"message": "no such model", "code": 404}, "no such model"):
        async with served(api([lambda _request, error=error: HttpReply.json({"error": error})])) as model:
            with pytest.raises(openai.APIError, match="no such model"):
                await ask(model)


# ----------------------------------------------------------------------------------------------- what a run keeps of it

BREAKS = [
    Fault(STORY, events=3),
    Fault(STORY, events=3, half=True),
    Fault(STORY, events=3, polite=True),
    Fault(STORY, events=3, half=True, polite=True),
    Fault(STORY, half=True),
    Fault(STORY, half=True, polite=True),
    Fault(STORY, events=0, polite=True),
]


@both_apis
@pytest.mark.parametrize("fault", BREAKS, ids=lambda fault: f"{fault.events}-{fault.half}-{fault.polite}")
async def test_a_broken_stream_leaves_nothing_and_the_run_goes_on(
    api: Any, fault: Fault, payer: Any, paid: list[Any]
) -> None:
    server = api([fault, STORY, "done"])
    if api is ChatServer and fault == Fault(STORY, half=True, polite=True):
        pytest.skip("what is cut there is [DONE], which adds nothing")
    async with served(server) as model:
        agent = Agent("a", model=model, tools=[payer])
        result = Runner.run_streamed(agent, "go")
        error = await failed(result)
        assert isinstance(error, openai.APIConnectionError | ModelBehaviorError)
        state = result.to_state()
        log = [event for step in state.live.log.steps for event in step.events]
        assert not [event for event in log if isinstance(event, ev.ReplyRecorded)]
        again = await Runner.run(agent, state)
        assert paid == []
        decided = again.to_state()
        decided.approve(again.interruptions[0])
        assert (await Runner.run(agent, decided)).final_output == "done"
    assert paid == [("ada", 5)]
    first, second, _third = bodies(server)
    assert {**first, "stream": 0, "stream_options": 0} == {**second, "stream": 0, "stream_options": 0}


async def failed(result: Any) -> Exception:
    """What ends a stream of events."""
    try:
        await read(result)
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


@both_apis
async def test_slow_bytes_change_nothing(api: Any, streamed: bool) -> None:
    text = "東京 \U0001f511 to be"
    async with served(api([Fault(text, pieces=3)])) as model:
        assert (await ask(model, streamed=streamed)).output[0].content[0].text == text
