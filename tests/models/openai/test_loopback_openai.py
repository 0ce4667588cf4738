"""The loopback servers of OpenAI's two APIs, against the official SDK's own types and the refusals people know."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import httpx2
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from keyturn.models.base import TokenDetails, Usage
from keyturn.models.scripted.items import assistant_message, function_call, reasoning, refusal
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.chat import ChatDialect, ChatServer
from keyturn.testing.loopback.responses import ResponsesServer, unfinished
from keyturn.testing.loopback.server import LoopbackServer
from tests.table import each

EVERYTHING = ModelStep(
    [
        reasoning("The invoice is due.", encrypted_content="gAAA"),
        assistant_message("To be, or not to be."),
        function_call("pay", {"to": "ada"}, call_id="c1"),
        function_call("pay", {"to": "bob", "note": "two words"}, call_id="c2"),
        {"type": "custom_tool_call", "call_id": "c3", "name": "sql", "input": "select 1"},
    ],
    usage=Usage(1, 11, TokenDetails(cached_tokens=3), 7, TokenDetails(reasoning_tokens=2), 18),
)
# The SDK has no type for a custom tool's call in a stream.
STREAMED = ModelStep(EVERYTHING.output[:-1])
REFUSED = ModelStep([refusal("I cannot help with that.")])


@cache
def typed(kind: Any) -> TypeAdapter[Any]:
    """What checks a value against one of the SDK's types; to make one takes a while."""
    return TypeAdapter(kind)


async def post(server: LoopbackServer, body: Any, path: str, key: str = "Bearer k") -> httpx2.Response:
    async with httpx2.AsyncClient(verify=False) as client:
        return await client.post(server.base_url + path, json=body, headers={"authorization": key})


def events(text: str) -> list[Any]:
    """The data of server-sent events."""
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def respond(server: LoopbackServer, **body: Any) -> httpx2.Response:
    return await post(server, {"model": "m", **body}, "/responses")


async def chat(server: LoopbackServer, *messages: Any, **body: Any) -> httpx2.Response:
    said = messages or ({"role": "user", "content": "hi"},)
    return await post(server, {"model": "m", "messages": said, **body}, "/chat/completions")


# ------------------------------------------------------------------------------------------------------- Responses


@pytest.mark.parametrize("step", [EVERYTHING, REFUSED])
async def test_a_response_is_one_of_the_sdks(step: ModelStep) -> None:
    async with ResponsesServer([step]) as server:
        body = (await respond(server, input="hi", tools=[], metadata={"a": "b"})).json()
    made = typed(Response).validate_python(body)
    assert [item.type for item in made.output] == [item["type"] for item in step.output]
    assert made.metadata == {"a": "b"}


@pytest.mark.parametrize("step", [EVERYTHING, REFUSED])
async def test_each_event_is_one_of_the_sdks(step: ModelStep) -> None:
    async with ResponsesServer([step]) as server:
        told = events((await respond(server, input="hi", stream=True)).text)
    made = [typed(ResponseStreamEvent).validate_python(event) for event in told]
    assert [event.type for event in made] == [event["type"] for event in told]
    assert [event.sequence_number for event in made] == list(range(len(made)))
    assert [made[0].type, made[1].type, made[-1].type] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    assert [item.type for item in made[-1].response.output] == [item["type"] for item in step.output]


@pytest.mark.parametrize(
    ("status", "details"),
    [
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}),
        ("failed", {"error": {"code": "server_error", "message": "oh"}}),
    ],
)
async def test_an_unfinished_response_is_one_too(status: str, details: Any, streamed: bool) -> None:
    async with ResponsesServer([lambda request: unfinished(request, status, **details)]) as server:
        answer = await respond(server, input="hi", stream=streamed)
    if streamed:
        last = [typed(ResponseStreamEvent).validate_python(event) for event in events(answer.text)][-1]
        assert last.type == f"response.{status}"
    whole = last.response if streamed else typed(Response).validate_python(answer.json())
    assert whole.status == status


CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "pay", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "paid"}


@each(
    ("body", "message"),
    [
        ({"input": [CALL]}, "No tool output found for function call c1."),
        ({"input": [OUTPUT]}, "No tool call found for function call output with call_id c1."),
        ({"input": [CALL, OUTPUT, OUTPUT]}, "No tool call found for function call output with call_id c1."),
        ({"input": [CALL, OUTPUT, CALL, OUTPUT]}, "Duplicate item found with id fc_1."),
        ({"input": [{**CALL, "id": "call_1"}, OUTPUT]}, "Expected an ID that begins with 'fc'."),
        ({"input": [{**CALL, "created_by": "x"}, OUTPUT]}, "Unknown parameter: 'input[0].created_by'."),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "without its required following item."),
        ({"input": "hi", "previous_response_id": "r9"}, "Previous response with id 'r9' not found."),
        ({"input": "hi", "previous_response_id": "r9", "conversation": "c"}, "Mutually exclusive parameters"),
        ({"input": "hi", "model": ""}, "Missing required parameter: 'model'."),
        ({"input": [{"type": "local_shell_call_output", "id": "c1", "output": ""}]}, "No tool call found for local"),
    ],
)
async def test_it_refuses_what_the_real_one_refuses(body: Any, message: str) -> None:
    async with ResponsesServer(["never"]) as server:
        answer = await respond(server, **body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert server.answered == 0


async def test_a_key_and_the_right_path_are_wanted() -> None:
    async with ResponsesServer() as responses, ChatServer() as completions:
        for server, path in ((responses, "/responses"), (completions, "/chat/completions")):
            assert (await post(server, {}, path, key="")).status_code == 401
            assert (await post(server, {}, "/elsewhere")).status_code == 404


async def test_a_response_is_gone_on_from_unless_it_was_not_stored() -> None:
    async with ResponsesServer([[function_call("pay", call_id="c1")], "done", "unstored", "never"]) as server:
        first = (await respond(server, input="hi")).json()["id"]
        assert (await respond(server, input="hi", previous_response_id=first)).status_code == 400
        second = await respond(server, input=[OUTPUT], previous_response_id=first)
        assert second.status_code == 200
        last = (await respond(server, input="more", previous_response_id=second.json()["id"], store=False)).json()
        assert (await respond(server, input="on", previous_response_id=last["id"])).status_code == 400
    assert [item.get("type", item.get("role")) for item in server.stored["resp_2"]] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
async def test_a_conversation_grows(conversation: Any) -> None:
    async with ResponsesServer([[function_call("pay", call_id="c1")], "done"]) as server:
        made = (await respond(server, input="hi", conversation=conversation)).json()
        assert made["conversation"] == {"id": "conv_1"}
        assert (await respond(server, input="hi", conversation=conversation)).status_code == 400
        assert (await respond(server, input=[OUTPUT], conversation=conversation)).status_code == 200
    assert len(server.conversations["conv_1"]) == 4


# ------------------------------------------------------------------------------------------------ Chat Completions


@pytest.mark.parametrize("step", [EVERYTHING, REFUSED])
async def test_a_completion_is_one_of_the_sdks(step: ModelStep) -> None:
    async with ChatServer([step]) as server:
        made = typed(ChatCompletion).validate_python((await chat(server)).json())
    assert made.choices[0].finish_reason == ("tool_calls" if step is EVERYTHING else "stop")
    assert len(made.choices[0].message.tool_calls or []) == (3 if step is EVERYTHING else 0)


DIALECTS = [
    ChatDialect(),
    ChatDialect(index="zero", label="every"),
    ChatDialect(label="last", name="cut", mixed=True, usage="every"),
    ChatDialect(name="every", thoughts="reasoning", done=False),
]


@each("dialect", DIALECTS)
@each("step", [STREAMED, REFUSED])
async def test_each_chunk_is_one_of_the_sdks(step: ModelStep, dialect: ChatDialect) -> None:
    async with ChatServer([step], dialect) as server:
        told = events((await chat(server, stream=True, stream_options={"include_usage": True})).text)
    assert (told[-1] == "[DONE]") == dialect.done
    chunks = [typed(ChatCompletionChunk).validate_python(event) for event in told if event != "[DONE]"]
    assert [chunk.usage is not None for chunk in chunks].count(True) == (len(chunks) if dialect.usage == "every" else 1)
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert [reason for reason in reasons if reason] == ["tool_calls" if step is STREAMED else "stop"]


@pytest.mark.each
@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([("assistant", "c1")], "must be followed by tool messages"),
        ([("assistant", "c1"), ("user", "")], "did not have response messages: c1"),
        ([("assistant", "c1", "c2"), ("tool", "c1")], "did not have response messages: c2"),
        ([("tool", "c1")], "must be a response to a preceding message"),
        ([("assistant", "c1"), ("tool", "c1"), ("tool", "c1")], "must be a response to a preceding message"),
    ],
)
async def test_it_refuses_calls_and_results_that_do_not_match(messages: list[Any], complaint: str) -> None:
    def message(role: str, *labels: str) -> Any:
        calls = [{"id": label, "type": "function", "function": {"name": "f", "arguments": "{}"}} for label in labels]
        if role == "assistant":
            return {"role": role, "content": None, "tool_calls": calls}
        return {"role": role, "content": "x", "tool_call_id": labels[0]}

    async with ChatServer(["never"]) as server:
        answer = await chat(server, *(message(*each) for each in messages))
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]["message"]
