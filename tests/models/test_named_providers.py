"""A provider is found by its name: its address, its key and nobody else's, and what its API lacks worked round."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from keyturn import Agent, ModelSettings, MultiProvider, UserError, function_tool
from keyturn.models.openai import fitting
from keyturn.models.openai.compatible import CompatibleModel
from keyturn.models.providers import PROVIDERS
from keyturn.models.scripted.items import function_call, reasoning, refusal
from keyturn.support.lazy import is_installed
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from tests.playing import approved, play
from tests.table import each

COMPATIBLE = {name: row for name, row in PROVIDERS.items() if row.made_by.endswith(":CompatibleModel")}
MANUAL = Path(__file__).resolve().parents[2] / "docs" / "models.md"
KEY = "key-of-this-provider"


class Verdict(BaseModel):
    fine: bool


@function_tool
def look(what: str) -> str:
    """Look at something."""
    return f"{what} seen"


@function_tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set, except what is OpenAI's."""
    for row in PROVIDERS.values():
        for name in filter(None, (row.key, row.address_variable)):
            monkeypatch.delenv(name, raising=False)
    for name in (
        "AZURE_OPENAI_AD_TOKEN",
        "OPENAI_API_VERSION",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "AWS_BEDROCK_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "of-openai-alone")
    monkeypatch.setattr(fitting, "_told", set())


def test_the_manual_lists_every_provider_with_its_variables_its_address_and_what_it_refuses() -> None:
    manual = MANUAL.read_text("utf-8")
    for prefix, provider in PROVIDERS.items():
        row = re.search(rf"^\| `{re.escape(prefix)}:.*", manual, re.M)
        assert row, prefix
        for words in filter(None, (provider.address, *provider.lacks.settings)):
            assert f"`{words}`" in row[0], words
        for variable in filter(None, (provider.key, provider.address_variable)):
            assert f"`{variable}`" in manual, variable


@each("prefix", COMPATIBLE)
async def test_it_is_asked_where_it_is_with_its_own_key(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = COMPATIBLE[prefix]
    assert row.base_url() == row.address
    call = function_call("pay", {"to": "ada"}, call_id="call_123")
    async with ChatServer([[reasoning("Hm."), call], "Done."]) as server:
        monkeypatch.setenv(row.address_variable, server.base_url)
        monkeypatch.setenv(row.key, KEY)
        model = MultiProvider().get_model(f"{prefix}:some/model:8b")
        agent = Agent("a", model=model, tools=[pay])
        paused = await play(agent, "Pay ada.", prefix < "m")
        result = await play(agent, await approved(paused, agent, saved=True), prefix < "m")
        await model.close()
    assert result.final_output == "Done."
    assert [request.json["model"] for request in server.requests] == ["some/model:8b"] * 2
    for request in server.requests:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert "of-openai-alone" not in str(request.headers)
    assert model.provider == row.trace
    monkeypatch.delenv(row.address_variable)
    monkeypatch.delenv(row.key)


@each("prefix", [*COMPATIBLE, "azure", "azure-chat", "vertex", "bedrock"])
async def test_a_missing_key_is_named_before_anything_is_sent(prefix: str) -> None:
    row = PROVIDERS[prefix]
    if row.keyless and prefix in COMPATIBLE:
        assert row.key_in_use() == "none"
        return
    model = MultiProvider().get_model(f"{prefix}:m")
    named = "AZURE_OPENAI_ENDPOINT" if prefix.startswith("azure") else row.key
    if prefix == "bedrock" and is_installed("botocore"):  # which finds other credentials, in a region
        named = "`AWS_REGION`"
    with pytest.raises(UserError, match=f"{row.title}.* set {named}"):
        await play(Agent("a", model=model), "hi")


class Recorded:
    """What a provider was asked for a request with all that some lack."""

    def __init__(self, prefix: str, monkeypatch: pytest.MonkeyPatch, server: ChatServer) -> None:
        monkeypatch.setenv(PROVIDERS[prefix].address_variable, server.base_url)
        monkeypatch.setenv(PROVIDERS[prefix].key, KEY)
        self.model = CompatibleModel("m", prefix)

    async def ask(self, streamed: bool, **settings: Any) -> Any:
        agent = Agent(
            "a", instructions="Be brief.", model=self.model, tools=[look], output_type=Verdict,
            model_settings=ModelSettings(**settings),
        )  # fmt: skip
        try:
            return await play(agent, [*PAST], streamed)
        finally:
            await self.model.close()


PAST: list[Any] = [
    {"role": "user", "content": "Look."},
    {**reasoning("Hm."), "provider_data": {"openai_chat": {"reasoning_content": "Hm."}}},
    {"type": "function_call", "call_id": "call_of_another_provider", "name": "look", "arguments": '{"what":"x"}'},
    {"type": "function_call_output", "call_id": "call_of_another_provider", "output": "seen"},
    {"role": "user", "content": "And?"},
    refusal("I cannot say."),
    {"role": "user", "content": "Why?"},
]


@each("prefix", COMPATIBLE)
async def test_what_an_api_lacks_is_left_out_or_asked_for_in_words(
    prefix: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lacks = COMPATIBLE[prefix].lacks
    for streamed in (False, True):
        async with ChatServer(['{"fine": true}']) as server:
            asked = Recorded(prefix, monkeypatch, server)
            with caplog.at_level(logging.INFO, "keyturn.models"):
                result = await asked.ask(streamed, top_logprobs=2, store=False, parallel_tool_calls=False)
        assert result.final_output == Verdict(fine=True)
        [request] = server.requests
        body = request.json
        assert ("strict" in body["tools"][0]["function"]) is not lacks.strict
        assert ("response_format" in body) is not bool(lacks.schema)
        assert ('"fine"' in str(body["messages"][0]["content"])) is bool(lacks.schema)
        assert ("stream_options" in body) is (streamed and not lacks.stream_usage)
        assert ("top_logprobs" in body) is ("top_logprobs" not in lacks.settings)
        assert ("parallel_tool_calls" in body) is ("parallel_tool_calls" not in lacks.settings)
        assert ("refusal" in json.dumps(body["messages"])) is not lacks.thoughts
        assert "I cannot say." in json.dumps(body["messages"])
        calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
        results = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
        assert calls == results
        assert (calls == ["call_of_another_provider"]) is not bool(lacks.call_ids)
        assert all(re.fullmatch(lacks.call_ids or ".*", label) for label in calls)
    told = [record for record in caplog.records if record.message.startswith(COMPATIBLE[prefix].title)]
    warned = [record.message for record in told if record.levelno == logging.WARNING]
    assert len(warned) == len({"top_logprobs", "store", "parallel_tool_calls"} & {*lacks.settings}), (
        "once for each setting"
    )
    worked_round = [lacks.strict, bool(lacks.schema), lacks.thoughts]
    assert len(told) - len(warned) == worked_round.count(True), "once for each, at its first use"
    caplog.clear()


async def test_a_tool_that_cannot_be_forced_by_name_is_offered_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "keyturn.models")
    for prefix, choice in (("llama.cpp", "look"), ("lmstudio", {"type": "function", "function": {"name": "look"}})):
        async with ChatServer(["Done."]) as server:
            model = Recorded(prefix, monkeypatch, server).model
            settings = ModelSettings(tool_choice=choice)
            await play(Agent("a", model=model, tools=[pay, look], model_settings=settings), "hi")
            await model.close()
        [request] = server.requests
        assert request.json["tool_choice"] == "required"
        assert [tool["function"]["name"] for tool in request.json["tools"]] == ["look"]
        assert f"{PROVIDERS[prefix].title} forces no tool by its name" in caplog.text


async def test_a_choice_that_would_be_ignored_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ChatServer(["Done."]) as server:
        model = Recorded("ollama", monkeypatch, server).model
        agent = Agent("a", model=model, tools=[look], model_settings=ModelSettings(tool_choice="required"))
        with pytest.raises(UserError, match="Ollama ignores tool_choice='required'"):
            await play(agent, "hi")
    assert not server.requests


@each(("prefix", "version"), [("azure", ""), ("azure-chat", ""), ("azure", "2025-04-01-preview")])
async def test_azure_is_asked_in_either_of_its_apis(prefix: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (ChatServer if prefix == "azure-chat" else ResponsesServer)(["Done."]) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_API_VERSION", version)
        model = MultiProvider().get_model(f"{prefix}:my-deployment")
        with pytest.raises(openai.NotFoundError):  # the path is not that of OpenAI's own API
            await play(Agent("a", model=model, model_settings=ModelSettings(retry=0)), "hi")
        await model.close()
    [request] = server.requests
    kind = "chat/completions" if prefix == "azure-chat" else "responses"
    assert request.path.split("?")[0] == (f"/openai/{kind}" if version else f"/openai/v1/{kind}")
    assert request.json["model"] == "my-deployment"
    assert KEY in (request.headers.get("api-key"), request.headers.get("authorization", "").removeprefix("Bearer "))
    assert model.provider == "azure.ai.openai"
    monkeypatch.delenv("OPENAI_API_VERSION")


async def test_the_clouds_make_the_official_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "a-project")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    provider = MultiProvider()
    gpt: Any = provider.get_model("bedrock:openai.gpt-oss-120b")
    client, _ = await gpt._account.client()
    assert str(client.base_url) == "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/"
    claude: Any = provider.get_model("vertex:claude-sonnet-5")
    client = await claude._here()
    assert type(client).__name__ == "AsyncAnthropicVertex"
    assert (client.project_id, client.region) == ("a-project", "europe-west4")
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    gemini: Any = provider.get_model("vertex:gemini-3-flash")
    client = await gemini._made.client()
    assert client.vertexai
    for model in (gpt, claude, gemini):
        await model.close()
    on_bedrock = provider.get_model("bedrock:eu.anthropic.claude-sonnet-5")
    if not is_installed("botocore"):
        with pytest.raises(UserError, match=r"Claude on Amazon Bedrock.*anthropic\[bedrock\]"):
            await play(Agent("a", model=on_bedrock), "hi")


@pytest.mark.trial
async def test_the_two_lines_of_the_manual_talk_with_a_server_on_this_machine() -> None:
    """In a process of its own, as a new user runs them: a local model has no key, and nothing else is set."""
    [lines] = re.findall(r"without a key:\n\n```python no-run\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)
    assert len(lines.splitlines()) == 2
    program = f"from keyturn import Agent, Runner\n{lines}"
    async with ChatServer(["Hello, you."]) as server:
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, env={**variables, "OLLAMA_BASE_URL": server.base_url}, stdout=PIPE
        )
        said, _ = await process.communicate()
    assert (process.returncode, said.decode()) == (0, "Hello, you.\n")
    assert [message["content"] for message in server.requests[0].json["messages"]] == ["Hello."]


async def test_a_server_that_is_not_there_is_named_with_its_address(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:1/v1")
    agent = Agent("a", model="ollama:qwen3", model_settings=ModelSettings(retry=0))
    with pytest.raises(openai.APIConnectionError) as raised:
        await play(agent, "Hello.", streamed)
    [note] = raised.value.__notes__
    assert note.startswith("Ollama was not reached at http://127.0.0.1:1/v1: start it, or set OLLAMA_BASE_URL if")


class Reply(SimpleNamespace):
    """An answer of LiteLLM, which is dumped as its own objects are."""

    def model_dump(self, **_options: Any) -> Any:
        return vars(self)


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The double of its public function; what it was asked."""
    asked: list[Any] = []
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"to":"ada"}'}}

    async def acompletion(**options: Any) -> Any:
        asked.append(options)
        first = len(asked) == 1
        message = {"role": "assistant", "content": None, "tool_calls": [call]} if first else {"content": "Done."}
        if not options["stream"]:
            return Reply(choices=[{"message": message, "finish_reason": "stop"}], usage={"prompt_tokens": 3})
        return chunks(message)

    async def chunks(message: Any) -> Any:
        delta = {**message, "tool_calls": [{"index": 0, **each} for each in message.get("tool_calls", ())]}
        yield Reply(choices=[{"delta": delta, "finish_reason": None}])
        yield Reply(choices=[{"delta": {}, "finish_reason": "stop"}], usage={"prompt_tokens": 3})

    module: Any = ModuleType("litellm")
    module.acompletion = acompletion
    monkeypatch.setitem(sys.modules, "litellm", module)
    return asked


async def test_litellm_is_asked_for_any_other_model(litellm: list[Any], streamed: bool) -> None:
    model = MultiProvider().get_model("litellm/cohere/command-a")
    agent = Agent("a", model=model, tools=[pay], model_settings=ModelSettings(temperature=0.5))
    paused = await play(agent, "Pay ada.", streamed)
    result = await play(agent, await approved(paused, agent, saved=True), streamed)
    assert result.final_output == "Done."
    assert [asked["model"] for asked in litellm] == ["cohere/command-a"] * 2
    assert litellm[0]["temperature"] == 0.5
    assert litellm[1]["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "paid ada"}


def test_names_of_the_openai_agents_sdk_lead_to_the_same_models() -> None:
    model = importlib.import_module("keyturn.extensions.models.litellm_model").LitellmModel
    provider = importlib.import_module("keyturn.extensions.models.litellm_provider").LitellmProvider()
    named = MultiProvider().get_model("litellm/cohere/command-a")
    assert type(named) is type(provider.get_model("cohere/command-a")) is model
    with pytest.raises(UserError, match="no default model"):
        provider.get_model(None)


async def test_without_litellm_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(UserError, match=r"pip install 'keyturn\[litellm\]'"):
        await play(Agent("a", model="litellm:cohere/command-a"), "hi")
