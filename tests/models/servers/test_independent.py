"""Every model keeps the room's promises against servers of model APIs that others wrote, and runs go through them.

The first column of these promises is our own servers (`testing/loopback`); these are the second and the third, so that
a mistake that a model and its server share is found by somebody who made neither.
"""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors

from keyturn import Agent, ModelSettings, MultiProvider
from keyturn.models.base import Model
from keyturn.models.scripted.items import function_call
from keyturn.models.scripted.script import ModelStep
from keyturn.realtime import (
    OpenAIRealtimeWebSocketModel,
    RealtimeModelListener,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
)
from keyturn.testing.suites.models import ModelSuite
from tests.models.servers.features import MODELS, OLDER_PATHS, PAGE, asks, columns, pay, table
from tests.models.servers.independent import AimockServer, IndependentServer, LlmockServer
from tests.playing import approved, play


@pytest.fixture(autouse=True)
def older_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where these servers have Gemini's API."""
    for name, value in OLDER_PATHS.items():
        monkeypatch.setenv(name, value)


def refused() -> dict[str, Exception]:
    answer = httpx2.Response(400, request=httpx2.Request("POST", "http://127.0.0.1"))
    by_openai = openai.BadRequestError("bad", response=answer, body=None)
    return {
        "chat": by_openai,
        "responses": by_openai,
        "anthropic": anthropic.BadRequestError("bad", response=answer, body=None),
        "google": errors.ClientError(400, {}),
    }


class IndependentSuite(ModelSuite):
    """The shared suite of models over a server that others wrote, by each of its APIs."""

    server: IndependentServer
    api: str

    @pytest.fixture(autouse=True, params=MODELS)
    def _asked_by(self, request: pytest.FixtureRequest) -> None:
        self.api = request.param

    def make_model(self, script: list[ModelStep]) -> Model:
        self.server.tell(script, self.api)
        return asks(self.server, self.api)

    def make_error(self) -> Exception:
        return refused()[self.api]


class TestModelsOverAimock(IndependentSuite):
    @pytest.fixture(autouse=True)
    def _served(self, aimock: IndependentServer) -> None:
        self.server = aimock


class TestModelsOverLlmock(IndependentSuite):
    keeps_calls = False

    @pytest.fixture(autouse=True)
    def _served(self, llmock: IndependentServer) -> None:
        self.server = llmock


@pytest.mark.trial
@pytest.mark.timeout(300)
async def test_the_table_of_servers_in_the_manual_is_of_today(
    aimock: IndependentServer, llmock: IndependentServer
) -> None:
    """Each feature is tried over each server that can be told to do it, by each API, plain and streamed."""
    drawn = await table(columns(aimock, llmock))
    assert drawn in PAGE.read_text(encoding="utf-8"), "run `python -m tests.models.servers.features`"


CUT: dict[str, tuple[str, ...]] = {
    # What the client raises of a broken line, and what is ours to notice: its end, and what is no JSON.
    "disconnect": ("openai", "anthropic", "httpx2", "google.genai"),
    "truncate": ("keyturn",),
    "malformed": ("keyturn", "google.genai"),
}


async def failure(agent: Agent[Any]) -> Exception | None:
    """What stops a run that is streamed."""
    try:
        await play(agent, "hi", streamed=True)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("api", MODELS)
async def test_a_stream_that_breaks_is_an_error_and_nothing_of_it_is_used(api: str, llmock: LlmockServer) -> None:
    """Official clients pass over a stream that ends early; here it is an error, and the run goes on from before it."""
    for kind, raised_by in CUT.items():
        reply = {"type": "reply", "text": "one two three four five six seven eight"}
        llmock.scenario([reply, {"type": "stream_fault", "kind": kind, "after_chunks": 4}, reply])
        agent = Agent("a", model=asks(llmock, api), model_settings=ModelSettings(retry=0))
        error: Any = await failure(agent)
        assert type(error).__module__.startswith(raised_by), (kind, error)
        result = await play(agent, error.run_data.to_state(), streamed=True)
        assert result.final_output == reply["text"]
        await agent.model.close()


# What is found by name, over which server, at which of its addresses.
NAMED: dict[str, tuple[str, str, dict[str, str]]] = {
    "azure:gpt-4o": ("aimock", "responses", {"AZURE_OPENAI_ENDPOINT": "", "AZURE_OPENAI_API_KEY": "k"}),
    "azure-chat:gpt-4o": ("aimock", "chat", {"AZURE_OPENAI_ENDPOINT": "", "AZURE_OPENAI_API_KEY": "k"}),
    "bedrock:openai.gpt-oss-120b": (
        "aimock",
        "chat",
        {"AWS_BEDROCK_BASE_URL": "/v1", "AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "us-east-1"},
    ),
    "ollama:qwen3": ("aimock", "chat", {"OLLAMA_BASE_URL": "/v1"}),
    "openrouter:openai/gpt-4o": ("aimock", "chat", {"OPENROUTER_BASE_URL": "/api/v1", "OPENROUTER_API_KEY": "k"}),
    "groq:openai/gpt-oss-120b": (
        "llmock",
        "chat",
        {"GROQ_OPENAI_BASE_URL": "/groq/openai/v1", "GROQ_API_KEY": "k"},
    ),
    "mistral:mistral-large-latest": (
        "llmock",
        "chat",
        {"MISTRAL_BASE_URL": "/mistral/v1", "MISTRAL_API_KEY": "k"},
    ),
    "together:meta-llama/x": ("llmock", "chat", {"TOGETHER_BASE_URL": "/together/v1", "TOGETHER_API_KEY": "k"}),
    "xai:grok-4": ("llmock", "chat", {"XAI_BASE_URL": "/xai/v1", "XAI_API_KEY": "k"}),
    "vllm:Qwen/Qwen3-8B": ("llmock", "chat", {"VLLM_BASE_URL": "/v1"}),
}


@pytest.mark.parametrize("name", NAMED)
async def test_a_provider_found_by_name_is_asked_as_it_wants_to_be(
    name: str, streamed: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, api, variables = NAMED[name]
    server: IndependentServer = request.getfixturevalue(kind)
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    for variable, value in variables.items():
        is_address = value == "" or value.startswith("/")
        monkeypatch.setenv(variable, server.url + value if is_address else value)
    server.tell([ModelStep([function_call("pay", '{"to":"ada"}', call_id="call_1")]), ModelStep("Done.")], api)
    model = MultiProvider().get_model(name)
    agent = Agent("a", model=model, tools=[pay])
    paused = await play(agent, "Pay ada.", streamed)
    result = await play(agent, await approved(paused, agent, saved=True), streamed)
    await model.close()
    assert result.final_output == "Done."


async def test_a_model_that_is_talked_to_calls_and_is_answered_over_aimock(aimock: AimockServer) -> None:
    call = {"name": "pay", "arguments": '{"to":"ann"}', "id": "c1"}
    aimock.fixtures(
        [
            {"match": {"hasToolResult": False}, "response": {"toolCalls": [call]}},
            {"match": {"hasToolResult": True}, "response": {"content": "I paid Ann."}},
        ]
    )
    model, said, over = OpenAIRealtimeWebSocketModel(), list[str](), asyncio.Event()

    class Answers(RealtimeModelListener):
        async def on_event(self, event: Any) -> None:
            if event.type == "function_call":
                await model.send_event(RealtimeModelSendToolOutput(event, "paid ann", start_response=True))
            if event.type == "output_text_delta":
                said.append(event.delta)
            if event.type == "error":
                over.set()
            if event.type == "turn_ended" and said:
                over.set()

    model.add_listener(Answers())
    url = aimock.url.replace("http", "ws", 1) + "/v1/realtime?model=gpt-realtime"
    await model.connect({"url": url, "api_key": "any", "initial_model_settings": {"modalities": ["text"]}})
    await model.send_event(RealtimeModelSendUserInput("Pay Ann."))
    await over.wait()
    await model.close()
    assert "".join(said) == "I paid Ann."
