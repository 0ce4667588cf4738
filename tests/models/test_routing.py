"""Names lead to models: bare ones to OpenAI, prefixed ones to their provider, and members load when asked for."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.models import routing
from keyturn.models.base import Model, ModelProvider
from keyturn.models.openai import defaults
from keyturn.models.routing import MultiProvider, split_name
from tests.table import each


class Fake(Model):
    def __init__(self, model: str | None, **options: Any) -> None:
        self.model, self.options, self.closed = model or defaults.OPENAI.model_name(), options, False

    async def get_response(self, *args: Any, **kwargs: Any) -> Any: ...

    def stream_response(self, *args: Any, **kwargs: Any) -> Any: ...

    async def close(self) -> None:
        self.closed = True


class Chat(Fake): ...


class Local(ModelProvider):
    def get_model(self, model_name: str | None) -> Model:
        return Fake(f"local {model_name}")


@pytest.fixture(autouse=True)
def members(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fake_members")
    module.Fake, module.Chat = Fake, Chat
    monkeypatch.setitem(sys.modules, "fake_members", module)
    rows = {"openai": "fake_members:Fake", "openai-chat": "fake_members:Chat", "anthropic": "fake_members:Fake"}
    monkeypatch.setattr(routing, "MEMBERS", {**rows, "google": "keyturn.models.not_there:Model"})
    monkeypatch.setattr(routing, "OPENAI", defaults.OpenAIDefaults())
    monkeypatch.setattr(defaults, "OPENAI", routing.OPENAI)
    monkeypatch.delenv("OPENAI_DEFAULT_MODEL", raising=False)


def found(name: str | None, provider: MultiProvider | None = None) -> Any:
    return (provider or MultiProvider()).get_model(name)


@each(
    ("name", "parts"),
    [
        ("gpt-5", (None, "gpt-5")),
        ("openai:gpt-5", ("openai", "gpt-5")),
        ("anthropic/claude", ("anthropic", "claude")),
        ("openai:meta/llama", ("openai", "meta/llama")),
        ("openai/llama:8b", ("openai", "llama:8b")),
        ("ft:gpt-4.1:acme::abc", (None, "ft:gpt-4.1:acme::abc")),
        ("openai:ft:gpt-4.1:acme", ("openai", "ft:gpt-4.1:acme")),
        (":x", ("", "x")),
        ("", (None, "")),
    ],
)
def test_names_are_split_at_the_first_mark(name: str, parts: tuple[str | None, str]) -> None:
    assert split_name(name) == parts


def test_a_bare_name_is_openais_by_the_chosen_api() -> None:
    model = found("gpt-5")
    assert type(model) is Fake
    assert model.model == "gpt-5"
    assert model.options == {}
    defaults.set_default_openai_api("chat_completions")
    assert type(found("gpt-5")) is Chat
    assert type(found("gpt-5", MultiProvider(openai_use_responses=True))) is Fake
    assert type(found("openai:gpt-5")) is Fake
    assert type(found("openai-chat:gpt-5")) is Chat


def test_no_name_is_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(None).model == defaults.OPENAI.model_name()
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", " gpt-mini ")
    assert found(None).model == "gpt-mini"
    assert found("").model == "gpt-mini"


def test_settings_for_openai_reach_openai_only() -> None:
    provider = MultiProvider(openai_api_key="k", openai_base_url="u", openai_organization=None, openai_project="p")
    assert found("x", provider).options == {"api_key": "k", "base_url": "u", "project": "p"}
    assert found("anthropic:x", provider).options == {}
    assert found("x", MultiProvider(openai_client="c")).options == {"openai_client": "c"}
    with pytest.raises(UserError, match="openai_client has a key"):
        MultiProvider(openai_client="c", openai_api_key="k")
    with pytest.raises(TypeError, match="openai_api_ky"):
        MultiProvider(openai_api_ky="k")
    with pytest.raises(TypeError, match=r"openai_prefix_mode.*write 'openai:NAME'"):
        MultiProvider(openai_prefix_mode="model_id")


def test_a_model_is_made_once_until_the_defaults_change() -> None:
    provider = MultiProvider()
    first = found("gpt-5", provider)
    assert found("gpt-5", provider) is first
    assert found("openai/gpt-5", provider) is first
    assert found("gpt-5-mini", provider) is not first
    defaults.set_default_openai_key("sk-other")
    assert found("gpt-5", provider) is not first


def test_own_providers_come_first() -> None:
    provider = MultiProvider({"local": Local(), "openai": Local()})
    assert found("local:llama", provider).model == found("local/llama", provider).model == "local llama"
    assert found("openai:gpt-5", provider).model == "local gpt-5"
    assert found("gpt-5", provider).model == "gpt-5"
    assert found("local:", provider).model == "local None"
    assert found("local:x", MultiProvider(provider_map={"local": Local()})).model == "local x"
    with pytest.raises(UserError, match="'local' must map to a ModelProvider, not str"):
        MultiProvider({"local": "http://localhost"})


@pytest.mark.parametrize("name", ["zzz/model", "llama3:8b", ":x", "/x"])
def test_an_unknown_prefix_is_an_error_with_two_remedies(name: str) -> None:
    with pytest.raises(UserError, match=r"no provider is called .* known are local, openai") as raised:
        found(name, MultiProvider({"local": Local()}))
    assert f"openai:{name}" in str(raised.value)
    assert found(name, MultiProvider(unknown_prefix_mode="model_id")).model == name


@pytest.mark.parametrize("name", ["openai:", "anthropic/"])
def test_a_provider_without_a_model_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match="names a provider and no model"):
        found(name)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"pip install 'keyturn\[google\]'") as raised:
        found("google:gemini")
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)

    def late(*args: Any, **kwargs: Any) -> Any:
        raise ModuleNotFoundError("No module named 'openai'", name="openai")

    monkeypatch.setattr(sys.modules["fake_members"], "Chat", late)
    with pytest.raises(UserError, match=r"need the package 'openai'.*pip install 'keyturn\[openai\]'"):
        found("openai-chat:x")


async def test_models_are_closed_with_their_provider() -> None:
    provider = MultiProvider()
    model = found("gpt-5", provider)
    await provider.aclose()
    assert model.closed
    assert found("gpt-5", provider) is not model


def test_the_real_table_names_modules_and_classes() -> None:
    table = __import__("importlib").import_module("keyturn.models.routing")
    assert set(table.MEMBERS) >= {"openai", "openai-chat", "anthropic", "google"}


def test_a_gateway_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(UserError, match=r"keyturn has no any-llm.*openrouter.*OpenAIChatCompletionsModel") as raised:
        MultiProvider().get_model("any-llm/openrouter/x")
    assert "any-llm/openrouter/x" in str(raised.value)


@each(("name", "near"), [("olama:qwen3", "'ollama'"), ("llama3:8b", "'ollama'"), ("Mistral:x", "'mistral'")])
def test_an_unknown_prefix_names_the_near_ones(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"the nearest is {near}"):
        MultiProvider().get_model(name)


def test_the_environment_names_the_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_MODEL", "anthropic:claude")
    assert found(None).model == "claude"
    assert found("gpt-5").model == "gpt-5"
    monkeypatch.setenv("KEYTURN_MODEL", " ")
    assert found(None).model == defaults.OPENAI.model_name()
