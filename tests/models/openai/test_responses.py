"""The Responses API as the model asks it: the exact requests, and what becomes of its replies."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import openai
import pytest
from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent
from openai.types.responses.response_create_params import ResponseCreateParams
from openai.types.shared import Reasoning
from pydantic import BaseModel, TypeAdapter

from keyturn import Agent, AgentOutputSchema, MultiProvider, RunConfig, Runner, UserError, handoff
from keyturn.core.errors import ModelBehaviorError
from keyturn.models.base import ModelResponse, ModelSettings, TokenDetails, Usage
from keyturn.models.openai.defaults import OPENAI
from keyturn.models.openai.responses import OpenAIResponsesModel
from keyturn.models.scripted.items import assistant_message, function_call
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer, response_body
from keyturn.testing.loopback.server import Fault, HttpReply, HttpRequest
from keyturn.testing.suites.models import ModelSuite
from tests.models.openai.serving import (
    ask,
    bodies,
    both_apis,
    client_of,
    events_of,
    hosted,
    kinds,
    served,
    status_error,
)

CHECK: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)


class TestOpenAIResponsesModel(ModelSuite):
    async def make_model(self, script: list[ModelStep]) -> Any:
        return hosted(await ResponsesServer(script).start())

    def make_error(self) -> Exception:
        return status_error(400)


class City(BaseModel):
    name: str


class Search:
    """A tool that the provider runs."""

    name = "search"

    def provider_tool(self) -> Any:
        return {"type": "web_search_preview", "search_context_size": "low"}


class Files:
    """One that says so by its configuration."""

    name = "hosted_mcp"
    tool_config: ClassVar[Any] = {"type": "mcp", "server_label": "files", "server_url": "https://e.com"}


async def sent(settings: ModelSettings | None = None, *, streamed: bool = False, **other: Any) -> Any:
    """The body of one request, checked against the SDK's own type."""
    server = ResponsesServer(["done"])
    async with served(server) as model:
        await ask(model, other.pop("given", "hi"), settings=settings, streamed=streamed, **other)
    [body] = bodies(server)
    CHECK.validate_python(body)
    return body


async def test_the_smallest_request(streamed: bool) -> None:
    body = await sent(streamed=streamed)
    stream = {"stream": True} if streamed else {}
    assert body == {"model": "m", "input": [{"role": "user", "content": "hi"}], **stream}


PAY = {
    "type": "function",
    "name": "pay",
    "description": "Pay somebody.",
    "strict": True,
    "parameters": {
        "title": "pay_args",
        "type": "object",
        "properties": {
            "to": {"title": "To", "type": "string"},
            "amount": {"title": "Amount", "type": "integer", "default": 5},
        },
        "required": ["to", "amount"],
        "additionalProperties": False,
    },
}


async def test_everything_that_can_be_asked(payer: Any) -> None:
    settings = ModelSettings(
        temperature=0.0,
        top_p=0.5,
        tool_choice="required",
        parallel_tool_calls=False,
        truncation="auto",
        max_tokens=100,
        reasoning=Reasoning(effort="low", summary="auto"),
        verbosity="low",
        metadata={"a": "b"},
        store=False,
        prompt_cache_retention="24h",
        response_include=["reasoning.encrypted_content"],
        top_logprobs=3,
        extra_query={"v": "2"},
        extra_body={"mine": {"deep": [1]}},
        extra_headers={"x-mine": "yes"},
        extra_args={"service_tier": "flex", "brand_new": 1},
    )
    server = ResponsesServer(["done"])
    to_billing = handoff(Agent("Billing"))
    async with served(server) as model:
        await ask(
            model,
            system="Be brief.",
            settings=settings,
            tools=[payer, Search(), Files()],
            handoffs=[to_billing],
            schema=AgentOutputSchema(City),
        )
    [request] = server.requests
    CHECK.validate_python(request.json)
    assert (request.query, request.headers["x-mine"]) == ("v=2", "yes")
    schema = {
        "title": "City",
        "type": "object",
        "properties": {"name": {"title": "Name", "type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    tools = request.json.pop("tools")
    assert [tool.get("name", tool["type"]) for tool in tools] == [
        "pay",
        "web_search_preview",
        "mcp",
        "transfer_to_billing",
    ]
    assert tools[0] == {**PAY, "parameters": payer.params_json_schema}
    assert tools[1:3] == [Search().provider_tool(), Files.tool_config]
    assert tools[3]["strict"] is True
    assert request.json == {
        "model": "m",
        "input": [{"role": "user", "content": "hi"}],
        "instructions": "Be brief.",
        "temperature": 0.0,
        "top_p": 0.5,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "truncation": "auto",
        "max_output_tokens": 100,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {
            "format": {"type": "json_schema", "name": "final_output", "schema": schema, "strict": True},
            "verbosity": "low",
        },
        "metadata": {"a": "b"},
        "store": False,
        "prompt_cache_retention": "24h",
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "top_logprobs": 3,
        "mine": {"deep": [1]},
        "service_tier": "flex",
        "brand_new": 1,
    }


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("pay", {"type": "function", "name": "pay"}),
        ("web_search_preview", {"type": "web_search_preview"}),
        ("mcp", {"type": "mcp", "server_label": "files"}),
        ("files", {"type": "mcp", "server_label": "files"}),
        ("elsewhere", {"type": "function", "name": "elsewhere"}),
        ({"type": "mcp", "server_label": "files"}, {"type": "mcp", "server_label": "files"}),
    ],
)
async def test_forms_of_tool_choice(payer: Any, choice: Any, told: Any) -> None:
    body = await sent(ModelSettings(tool_choice=choice), tools=[payer, Search(), Files()])
    assert body["tool_choice"] == told


async def test_a_tool_that_cannot_be_offered_is_an_error() -> None:
    with pytest.raises(UserError, match="'odd' cannot be offered"):
        await sent(tools=[type("Odd", (), {"name": "odd"})()])
    with pytest.raises(UserError, match="reasoning must be a mapping"):
        await sent(ModelSettings(reasoning="low"))


async def test_a_schema_that_is_not_strict_and_plain_text() -> None:
    loose = await sent(schema=AgentOutputSchema(dict[str, int], strict_json_schema=False))
    assert loose["text"]["format"]["strict"] is False
    assert "text" not in await sent(schema=AgentOutputSchema(str))


async def test_a_stored_prompt_brings_its_own_model() -> None:
    prompt = {"id": "pmpt_1", "version": None, "variables": {"name": "ada"}}
    body = await sent(prompt=prompt)
    assert body["prompt"] == {"id": "pmpt_1", "variables": {"name": "ada"}}
    assert body["model"] == "m"
    with pytest.raises(UserError, match="needs its 'id'"):
        await sent(prompt={"version": "1"})


async def test_without_a_name_it_is_the_default_model_unless_a_prompt_says_another() -> None:
    async with ResponsesServer(["one", "two"]) as server, client_of(server) as client:
        model = OpenAIResponsesModel(openai_client=client)
        await ask(model)
        await ask(model, prompt={"id": "pmpt_1"})
    first, second = bodies(server)
    assert first["model"] == model.model == OPENAI.model_name()
    assert "model" not in second


async def test_an_agent_with_a_stored_prompt_needs_no_model() -> None:
    async with ResponsesServer(["hello"]) as server:
        provider = MultiProvider(openai_api_key="k", openai_base_url=server.base_url)
        agent = Agent("a", prompt={"id": "pmpt_1", "version": "2"})
        await Runner.run(agent, "hi", run_config=RunConfig(model_provider=provider))
        await provider.aclose()
    [body] = bodies(server)
    assert body == {"input": [{"role": "user", "content": "hi"}], "prompt": {"id": "pmpt_1", "version": "2"}}


@pytest.mark.parametrize("kept", [{"previous_response_id": "r1"}, {"conversation_id": "conv_1"}])
async def test_a_conversation_that_the_provider_keeps(kept: dict[str, str]) -> None:
    server = ResponsesServer(["done"])
    server.stored["r1"] = []
    async with served(server) as model:
        await ask(model, **kept)
    [(name, value)] = kept.items()
    assert bodies(server)[0][name.removesuffix("_id") if name == "conversation_id" else name] == value


USED = Usage(1, 11, TokenDetails(cached_tokens=3), 7, TokenDetails(reasoning_tokens=2), 18)


@both_apis
async def test_the_sdk_converts_no_conversation(api: Any, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so item by item, for 2 ms each, on the event loop; see `docs/decisions`."""
    from openai.resources.chat.completions import completions
    from openai.resources.responses import responses

    converted: list[Any] = []

    async def convert(data: Any, _kind: Any) -> Any:
        converted.append({name: value for name, value in data.items() if value and not isinstance(value, openai.Omit)})
        return data

    for module in (completions, responses):
        monkeypatch.setattr(module, "async_maybe_transform", convert)
    server = api(["done"])
    async with served(server) as model:
        await ask(model, [{"role": "user", "content": "hi"}] * 3, streamed=streamed)
    assert converted == [{"model": "m", **({"stream": True} if streamed else {})}]
    assert len(bodies(server)[0]["messages" if api is ChatServer else "input"]) == 3


async def test_ids_and_usage(streamed: bool) -> None:
    step = ModelStep("hello", usage=USED, response_id="resp_mine", request_id="req_mine")
    async with served(ResponsesServer([step])) as model:
        reply = await ask(model, streamed=streamed)
    assert (reply.response_id, reply.request_id, reply.usage) == ("resp_mine", "req_mine", USED)


async def test_a_stream_is_the_clients_own_events() -> None:
    async with served(ResponsesServer([[assistant_message("hello you"), function_call("look", call_id="c")]])) as model:
        events = await events_of(model)
    assert kinds(events)[:3] == ["created", "in_progress", "output_item.added"]
    deltas = [event for event in events if isinstance(event, ResponseTextDeltaEvent)]
    assert [event.delta for event in deltas] == ["hello ", "you"]
    assert isinstance(events[-1], ResponseCompletedEvent)
    assert events[-1].response.output_text == "hello you"


async def test_events_reach_the_listener_of_a_run() -> None:
    async with served(ResponsesServer(["hello you"])) as model:
        result = Runner.run_streamed(Agent("a", model=model), "hi")
        data = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
    assert [each.delta for each in data if isinstance(each, ResponseTextDeltaEvent)] == ["hello ", "you"]
    assert result.final_output == "hello you"


async def test_a_listener_that_leaves_early_lets_go_of_the_line() -> None:
    async with served(ResponsesServer(["one two three", "again"])) as model:
        asked = ("", [], ModelSettings(), [], None, [], None)
        stream = model.stream_response(*asked)
        assert (await anext(stream)).type == "response.created"
        await stream.aclose()
        assert (await ask(model)).output[0].content[0].text == "again"


async def test_items_that_only_the_events_told_are_kept() -> None:
    """Some servers leave the last event's list empty."""

    def reply(request: HttpRequest) -> HttpReply:
        item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "pay", "arguments": "{}"}
        whole = response_body(ModelResponse([], Usage(), "resp_1"), request.json)
        done = {"type": "response.output_item.done", "output_index": 0, "sequence_number": 0, "item": item}
        return HttpReply.stream(
            [done, {"type": "response.completed", "sequence_number": 1, "response": whole}], named=True
        )

    async with served(ResponsesServer([reply])) as model:
        assert (await ask(model, streamed=True)).output[0]["call_id"] == "c1"


@both_apis
async def test_one_connection_serves_many_streams(api: Any) -> None:
    server = api(["one two", "three", "four", "five"])
    async with served(server) as model:
        for streamed in (True, True, False, True):
            await ask(model, streamed=streamed)
    assert server.connections == 1


@both_apis
@pytest.mark.parametrize("fault", [Fault("done", events=9), Fault("done", events=9, stall=True)])
async def test_what_comes_after_the_last_event_spoils_nothing(api: Any, fault: Fault) -> None:
    async with served(api([fault])) as model:
        assert (await ask(model, streamed=True)).output[0].content[0].text == "done"


@both_apis
async def test_a_run_that_is_cancelled_lets_go_of_the_line(api: Any) -> None:
    server = api([Fault("one two three", events=5, stall=True), "again"])
    async with served(server) as model:
        result = Runner.run_streamed(Agent("a", model=model), "hi")
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                result.cancel()
        again = await Runner.run(Agent("a", model=model), "hi")
    assert again.final_output == "again"


# -------------------------------------------------------------------------------------------------------- accounts


def test_a_client_and_a_key_exclude_each_other() -> None:
    with pytest.raises(UserError, match="one or the other"):
        OpenAIResponsesModel("m", object(), api_key="k")


async def test_a_client_that_blocks_is_refused() -> None:
    model = OpenAIResponsesModel("m", openai.OpenAI(api_key="k"))
    with pytest.raises(UserError, match="must be an AsyncOpenAI, not OpenAI"):
        await ask(model)


async def test_no_key_says_where_one_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(OPENAI, "key", None)
    monkeypatch.setattr(OPENAI, "client", None)
    with pytest.raises(UserError, match=r"OPENAI_API_KEY.*set_default_openai_key"):
        await ask(OpenAIResponsesModel("m"))


async def test_where_the_key_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setattr(OPENAI, "key", None)
    async with ResponsesServer(["a", "b", "c"]) as server:
        for key, wanted in ((None, "sk-env"), ("sk-default", "sk-default"), ("sk-default", "sk-own")):
            monkeypatch.setattr(OPENAI, "key", key)
            own = {"api_key": "sk-own"} if wanted == "sk-own" else {}
            model = OpenAIResponsesModel("m", base_url=server.base_url, organization="org", project="proj", **own)
            await ask(model)
            await model.close()
            headers = server.requests[-1].headers
            assert headers["authorization"] == f"Bearer {wanted}"
            assert (headers["openai-organization"], headers["openai-project"]) == ("org", "proj")


async def test_the_default_client_is_used_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ResponsesServer(["one", "two"]) as server, client_of(server) as client:
        monkeypatch.setattr(OPENAI, "client", client)
        model = MultiProvider().get_model("m")
        await ask(model)
        await model.close()
        await ask(model)
    assert server.answered == 2


def test_each_event_loop_has_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections belong to the loop that they were made in: `run_sync` makes a new one each time."""
    with ResponsesServer(lambda _request: "hello") as server:
        model = OpenAIResponsesModel("m", api_key="k", base_url=server.base_url)
        for _ in range(3):
            assert Runner.run_sync(Agent("a", model=model), "hi").final_output == "hello"


async def test_many_questions_at_once() -> None:
    server = ResponsesServer(lambda request: request.json["input"][0]["content"])
    async with served(server) as model:
        replies = await asyncio.gather(*(ask(model, f"number {n}", streamed=n % 2 == 0) for n in range(10)))
    assert [reply.output[0].content[0].text for reply in replies] == [f"number {n}" for n in range(10)]


async def test_a_parser_that_dies_is_not_the_callers_problem() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    body = b'{"id": "r", "output": [{"type": "odd", "x": ' + deep + b"}]}"
    async with served(ResponsesServer([Fault(body=body)])) as model:
        with pytest.raises(ModelBehaviorError, match="not JSON"):
            await ask(model)
