"""Claude on Bedrock and on Vertex AI, and Gemini there, keep the room's promises over the clouds' wire formats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import httpx2
import pytest
from google.auth import credentials
from google.genai import errors

from keyturn import Agent, ModelSettings, MultiProvider
from keyturn.models.base import Model
from keyturn.models.scripted.script import ModelStep
from keyturn.support.lazy import is_installed
from keyturn.testing.loopback.server import HttpReply, HttpRequest, LoopbackServer
from keyturn.testing.suites.models import ModelSuite
from tests.models.clouds.serving import BedrockServer, VertexClaudeServer, VertexGeminiServer, fault
from tests.models.errand import ASKED, DONE, decided, errand, script
from tests.playing import play

BEDROCK = "bedrock:eu.anthropic.claude-sonnet-5-v1:0"
CLOUDS: dict[str, tuple[type[LoopbackServer], str]] = {
    BEDROCK: (BedrockServer, "ANTHROPIC_BEDROCK_BASE_URL"),
    "vertex:claude-sonnet-5@20260601": (VertexClaudeServer, "ANTHROPIC_VERTEX_BASE_URL"),
    "vertex:gemini-3-flash": (VertexGeminiServer, "GOOGLE_VERTEX_BASE_URL"),
}


class Token(credentials.Credentials):
    """Credentials of nobody, as Google's default ones are found."""

    def refresh(self, request: object) -> None:
        self.token = "of nobody"


def default_credentials(*_args: object, **_kwargs: object) -> tuple[Token, str]:
    made = Token()
    made.refresh(None)
    return made, "another-project"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user of these clouds has set."""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "of nobody")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "a-project")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    monkeypatch.setattr("google.auth.default", default_credentials)


def asks(name: str, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The model of that name, which finds the server by its variable."""
    if name == BEDROCK and not is_installed("botocore"):
        pytest.skip("needs botocore (pip install botocore)")
    monkeypatch.setenv(CLOUDS[name][1], server.url)
    return MultiProvider().get_model(name)


class CloudSuite(ModelSuite):
    """The shared suite of models over one cloud."""

    name: str

    @pytest.fixture(autouse=True)
    async def _served(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        self.monkeypatch, self.servers = monkeypatch, list[LoopbackServer]()
        yield
        for server in self.servers:
            await server.close()

    async def make_model(self, script: list[ModelStep]) -> Model:
        self.servers.append(await CLOUDS[self.name][0](script).start())
        return asks(self.name, self.servers[-1], self.monkeypatch)

    def make_error(self) -> Exception:
        if "gemini" in self.name:
            error = errors.ClientError(400, {"error": {"message": "bad"}})
            error.status_code = 400
            return error
        response = httpx2.Response(400, request=httpx2.Request("POST", "http://127.0.0.1"))
        return anthropic.BadRequestError("bad", response=response, body=None)


class TestClaudeOnBedrock(CloudSuite):
    name = BEDROCK


class TestClaudeOnVertex(CloudSuite):
    name = "vertex:claude-sonnet-5@20260601"


class TestGeminiOnVertex(CloudSuite):
    name = "vertex:gemini-3-flash"


@pytest.mark.parametrize("name", CLOUDS)
async def test_a_run_pauses_with_its_thoughts_and_goes_on(
    name: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thoughts are signed and go back as they came: the server checks them."""
    async with CLOUDS[name][0](script("c1", "c2")) as server:
        agent = errand(asks(name, server, monkeypatch))
        paused = await play(agent, ASKED, streamed)
        done = await play(agent, await decided(agent, paused), streamed)
        await agent.model.close()
    assert done.final_output == DONE


class Broken(BedrockServer):
    """Its first stream is spoiled."""

    def __init__(self, spoil: Callable[[bytes], bytes]) -> None:
        super().__init__(["one two three four five", DONE])
        self.spoil = spoil

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        reply = super().reply(request, step)
        if self.answered > 1 or reply.parts is None:
            return reply
        return HttpReply(reply.status, reply.headers, parts=(self.spoil(b"".join(reply.parts)),))


THROTTLED = fault("throttlingException", "Too many requests")
SPOILED: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda data: data[:-40], "keyturn"),  # cut in a frame
    (lambda data: data[: len(data) // 2], "keyturn"),
    (lambda data: data[:400] + b"?" + data[401:], "botocore"),  # its checksum is wrong
    (lambda data: data[: int.from_bytes(data[:4])] + THROTTLED, "anthropic"),  # ended by an exception
]


async def test_a_stream_of_bedrock_that_breaks_is_an_error_and_nothing_of_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for spoil, raised_by in SPOILED:
        async with Broken(spoil) as server:
            model = asks(BEDROCK, server, monkeypatch)
            agent = Agent("a", model=model, model_settings=ModelSettings(retry=0))
            error = await failure(agent)
            assert type(error).__module__.startswith(raised_by), error
            result = await play(agent, error.run_data.to_state(), streamed=True)
            assert result.final_output == DONE
            await model.close()


async def failure(agent: Agent[Any]) -> Any:
    """What stops a run that is streamed."""
    try:
        return await play(agent, "go", streamed=True)
    except Exception as error:
        return error
