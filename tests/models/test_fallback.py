"""A provider's trouble moves on to the next model; a refusal, a wrong key and a bad request do not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from keyturn import Agent, ModelBehaviorError, Runner, UserError
from keyturn.models import faults
from keyturn.models.anthropic.model import AnthropicModel
from keyturn.models.base import Model, ModelResponse, ModelSettings
from keyturn.models.fallback import FallbackModel
from keyturn.models.google.model import GoogleModel
from keyturn.models.scripted.items import refusal
from keyturn.models.scripted.model import ModelStep, ScriptedModel
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.google import GeminiServer
from keyturn.testing.loopback.server import Fault
from keyturn.testing.suites.models import ModelSuite
from tests.models.errand import ASKED, DONE, decided, errand, script
from tests.playing import play
from tests.table import each


class Status(Exception):
    """An SDK's error, as far as anybody here knows it."""

    def __init__(self, status: int, name: str = "status_code") -> None:
        super().__init__(f"status {status}")
        setattr(self, name, status)


class TestFallbackModel(ModelSuite):
    """What one model promises, two promise together, also where the first is down."""

    def make_model(self, script: list[ModelStep]) -> FallbackModel:
        return FallbackModel(ScriptedModel([Status(503)] * len(script)), ScriptedModel(script))


async def ask(model: Model, streamed: bool, **kept: Any) -> Any:
    asked = (None, [{"role": "user", "content": "q"}], ModelSettings(), [], None, [], None)
    if not streamed:
        return await model.get_response(*asked, **kept)
    last = [event async for event in model.stream_response(*asked, **kept)][-1]
    return ModelResponse(last.response.output)


def text(reply: Any) -> str:
    return "".join(part.get("text", "") for item in reply.output for part in item["content"])


PASSING = [
    *(Status(status) for status in (408, 409, 429, 500, 502, 503, 529)),
    Status(503, "code"),
    ConnectionError("refused"),
    TimeoutError("late"),
    type("APIConnectionError", (Exception,), {})("an SDK's"),
    type("ReadTimeout", (type("TransportError", (Exception,), {}),), {})("an HTTP client's"),
]
LASTING = [
    *(Status(status) for status in (400, 401, 403, 404, 413, 422)),
    Status(401, "code"),
    ValueError("a bug"),
    ModelBehaviorError("nonsense"),
    UserError("a mistake"),
]


def named(error: Any) -> str:
    return f"{type(error).__name__} {error}"


@each("error", PASSING, ids=named)
async def test_the_next_model_is_asked(error: Exception, streamed: bool) -> None:
    model = FallbackModel(ScriptedModel([error]), ScriptedModel(["second"]), ScriptedModel())
    assert text(await ask(model, streamed)) == "second"
    assert model.last is model.models[1]


@each("error", LASTING, ids=named)
async def test_the_next_model_is_not_asked(error: Exception, streamed: bool) -> None:
    second = ScriptedModel(["second"])
    model = FallbackModel(ScriptedModel([error]), second)
    with pytest.raises(type(error)) as raised:
        await ask(model, streamed)
    assert raised.value is error
    assert (second.calls, model.last) == ([], None)


async def test_a_refusal_is_an_answer(streamed: bool) -> None:
    model = FallbackModel(ScriptedModel([[refusal("No.")]]), ScriptedModel())
    reply = await ask(model, streamed)
    assert reply.output[0]["content"] == [{"type": "refusal", "refusal": "No."}]
    assert model.last is model.models[0]


async def test_the_last_error_comes_as_it_is_with_a_note_of_the_others(streamed: bool) -> None:
    errors = [Status(503), ConnectionError("dead"), Status(429)]
    with pytest.raises(Status) as raised:
        await ask(FallbackModel(*(ScriptedModel([error]) for error in errors)), streamed)
    assert raised.value is errors[-1]
    notes = ["model 1 failed before: Status: status 503", "model 2 failed before: ConnectionError: dead"]
    assert raised.value.__notes__ == notes


async def test_a_stream_that_has_begun_stays_where_it_is() -> None:
    second = ScriptedModel(["second"])
    model = FallbackModel(ScriptedModel([ModelStep("first", error=Status(503), break_after=1)]), second)
    with pytest.raises(Status):
        await ask(model, True)
    assert not second.calls


async def test_a_stream_is_let_go_where_its_reader_stops() -> None:
    closed: list[str] = []

    class Slow(ScriptedModel):
        async def stream_response(self, *asked: Any, **kept: Any) -> Any:
            try:
                async for event in super().stream_response(*asked, **kept):
                    yield event
            finally:
                closed.append("closed")

    stream = FallbackModel(Slow(["one two"])).stream_response(None, [], ModelSettings(), [], None, [], None)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator, and typed as what a model may return
    assert closed == ["closed"]


async def test_a_conversation_kept_at_one_provider_never_moves(streamed: bool) -> None:
    second = ScriptedModel(["second"])
    model = FallbackModel(ScriptedModel([Status(503), Status(503)]), second)
    for kept in ({"previous_response_id": "resp_1"}, {"conversation_id": "conv_1"}):
        with pytest.raises(Status):
            await ask(model, streamed, **kept)
    assert not second.calls


async def test_whom_to_blame_can_be_said() -> None:
    model = FallbackModel(
        ScriptedModel([ModelBehaviorError("nonsense")]), ScriptedModel(["second"]), hop=lambda error: True
    )
    assert text(await ask(model, False)) == "second"


async def test_all_are_closed() -> None:
    closed: list[Model] = []

    class Held(ScriptedModel):
        async def close(self) -> None:
            closed.append(self)

    model = FallbackModel(Held(), Held())
    await model.close()
    assert closed == model.models


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UserError, match="not int"):
        FallbackModel(ScriptedModel(), 3)  # type: ignore[arg-type]  # what an untyped caller might pass
    with pytest.raises(UserError, match="no provider is called"):
        FallbackModel("nobody:knows")


def test_models_are_found_by_name() -> None:
    assert isinstance(FallbackModel("anthropic:claude-test").models[0], AnthropicModel)


async def test_a_pause_over_one_provider_is_resumed_over_another(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude asks for the payments and is down when they are decided: Gemini goes on from there."""
    monkeypatch.setattr(faults, "_FIRST_WAIT", 0.0)
    first, *_ = script("toolu_1", "toolu_2")
    async with MessagesServer([first, *[Fault(status=529)] * 3]) as claude, GeminiServer([DONE]) as gemini:
        model = FallbackModel(
            AnthropicModel("claude-test", api_key="k", base_url=claude.base_url),
            GoogleModel("gemini-3-test", api_key="k", base_url=gemini.base_url),
        )
        agent = errand(model)
        done = await play(agent, await decided(agent, await play(agent, ASKED, streamed)), streamed)
        assert model.last is model.models[1]
        await model.close()
    assert done.final_output == DONE
    assert len(claude.requests) == 4
    _, said, told = gemini.requests[0].json["contents"]
    assert [part.get("thoughtSignature") for part in said["parts"]] == [None, "skip_thought_signature_validator", None]
    outputs = [part["functionResponse"]["response"]["output"] for part in told["parts"]]
    assert outputs == ["paid ada 5", "Not bob."]


def test_it_works_without_a_loop_of_the_callers() -> None:
    model = FallbackModel(ScriptedModel([Status(503)]), ScriptedModel(["hello"]))
    assert Runner.run_sync(Agent("a", model=model), "hi").final_output == "hello"
    assert asyncio.run(ask(FallbackModel(ScriptedModel(["x"])), False)).output


LAZY = """
import sys
from keyturn.models.fallback import FallbackModel
FallbackModel("anthropic:claude-test", "google:gemini-test")
print(*({"anthropic", "google.genai", "openai", "httpx2"} & {*sys.modules}))
"""


@pytest.mark.trial
def test_no_sdk_is_loaded_before_it_is_asked_with() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == []
