"""OpenAI's models from one account: which API they speak, whose client they share, and when the SDK is loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from keyturn import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    UserError,
)
from keyturn.models.openai.defaults import OPENAI
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from tests.models.openai.serving import ask, bodies, client_of


@pytest.mark.parametrize(
    ("use_responses", "default", "kind"),
    [
        (None, "responses", OpenAIResponsesModel),
        (None, "chat_completions", OpenAIChatCompletionsModel),
        (True, "chat_completions", OpenAIResponsesModel),
        (False, "responses", OpenAIChatCompletionsModel),
    ],
)
def test_which_api(use_responses: bool | None, default: Any, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPENAI, "api", default)
    model = OpenAIProvider(api_key="k", use_responses=use_responses).get_model("m")
    assert type(model) is kind
    assert model.model == "m"


async def test_its_models_share_a_client_until_it_is_closed() -> None:
    async with ResponsesServer(lambda _request: "hello") as server:
        provider = OpenAIProvider(api_key="k", base_url=server.base_url, use_responses=True)
        for name in ("one", "two"):
            config = RunConfig(model_provider=provider)
            assert (await Runner.run(Agent("a", model=name), "hi", run_config=config)).final_output == "hello"
        assert server.connections == 1
        await provider.aclose()
        await ask(provider.get_model(None))
        assert server.connections == 2
        await provider.aclose()
    assert [body["model"] for body in bodies(server)] == ["one", "two", OPENAI.model_name()]


async def test_a_client_of_ones_own() -> None:
    async with ChatServer(["hello", "again"]) as server, client_of(server) as client:
        provider = OpenAIProvider(openai_client=client, use_responses=False)
        await ask(provider.get_model("m"))
        await provider.aclose()
        assert (await ask(provider.get_model("m"))).output
    with pytest.raises(UserError, match="one or the other"):
        OpenAIProvider(openai_client=client, api_key="k")


async def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        with pytest.raises(UserError, match=r"pip install 'keyturn\[openai\]'"):
            await ask(kind("m", api_key="k"))


@pytest.mark.trial
def test_the_package_is_loaded_when_a_model_is_asked_and_not_before() -> None:
    program = (
        "import sys, keyturn\n"
        "keyturn.OpenAIResponsesModel('m', api_key='k'), keyturn.OpenAIProvider().get_model('m')\n"
        "keyturn.OpenAIChatCompletionsModel('m', base_url='http://127.0.0.1:9')\n"
        "import keyturn.testing.loopback.responses, keyturn.testing.loopback.chat\n"
        "print(sorted(name for name in ('openai', 'httpx2', 'pydantic') if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
