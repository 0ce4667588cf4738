"""Which model plays: what was asked for, else the first provider with a key, else the scripted one."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import UserError
from keyturn.cli.demo_player import PROVIDERS, Player
from keyturn.models.openai.defaults import OPENAI
from keyturn.models.scripted.model import ScriptedModel
from tests.cli.terminal import KEYS


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have some."""
    for key in (*KEYS, "KEYTURN_MODEL", "GROQ_API_KEY", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(key, raising=False)


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ((), "scripted"),
        (("OPENAI_API_KEY",), f"openai:{OPENAI.model_name()}"),
        (("ANTHROPIC_API_KEY",), "anthropic:claude-sonnet-5"),
        (("GOOGLE_API_KEY",), "google:gemini-3-flash"),
        (("GOOGLE_API_KEY", "ANTHROPIC_API_KEY"), "anthropic:claude-sonnet-5"),
        (("GOOGLE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"), f"openai:{OPENAI.model_name()}"),
    ],
)
def test_the_first_provider_with_a_key_plays(monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], name: str) -> None:
    for key in keys:
        monkeypatch.setenv(key, "a key")
    player = Player.chosen()
    assert player.name == name
    assert player.is_real == bool(keys)
    assert not keys or f"{player.provider.key} is set" in player.sentence()
    assert "a key" not in player.sentence().replace("without a key", "")
    assert Player.chosen(scripted=True).name == "scripted"
    assert Player.chosen("openai:mine").name == "openai:mine"


def test_a_key_that_is_empty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert Player.chosen().name == "scripted"
    assert "no provider's key is set" in Player.chosen().sentence()


def test_the_environment_may_name_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("KEYTURN_MODEL", "ollama:qwen3")
    player = Player.chosen()
    assert player.name == "ollama:qwen3"
    assert "KEYTURN_MODEL names it" in player.sentence()
    assert player.model().model == "qwen3"
    assert Player.chosen("openai:mine").name == "openai:mine"
    assert not Player.chosen(scripted=True).is_real


def test_a_named_provider_says_its_variable_and_its_address() -> None:
    with pytest.raises(UserError, match="Groq needs a key: set GROQ_API_KEY"):
        Player("groq:llama").model()
    told = Player("ollama:qwen3").trouble(ConnectionError("refused"))
    assert told is not None
    assert "Ollama did not answer at http://localhost:11434/v1" in told


@pytest.mark.parametrize("prefix", list(PROVIDERS))
def test_a_package_that_is_not_there_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setattr("keyturn.cli.demo_player.is_installed", lambda name: False)
    with pytest.raises(UserError, match=rf"pip install 'keyturn\[{prefix}\]', or run without a provider: .*--scripted"):
        Player.chosen(f"{prefix}:m").model()
    assert isinstance(Player.chosen(scripted=True).model(), ScriptedModel)


@pytest.mark.parametrize(
    ("name", "provider"), [("gpt-x", "OpenAI"), ("openai-chat:local", "OpenAI"), ("google/gemini", "Google")]
)
def test_a_name_tells_who_is_asked(name: str, provider: str) -> None:
    assert Player(name).provider.name == provider


def test_a_provider_nobody_knows_is_an_error() -> None:
    with pytest.raises(UserError, match="no provider is called 'acme'"):
        Player("acme:m").model()


def failed(status: int | None, text: str = "sk-secret is wrong") -> Exception:
    error: Any = OSError(text)
    error.status_code = status
    return error


@pytest.mark.each
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (failed(401), "OpenAI did not accept the key in OPENAI_API_KEY (401)"),
        (failed(403), "did not accept the key"),
        (failed(400, "API key not valid: sk-secret"), "did not accept the key"),
        (failed(404), "knows no model 'openai:m' (404): name another one with --model"),
        (failed(429), "is rate limited"),
    ],
)
def test_a_providers_trouble_is_told_with_a_remedy_and_without_the_key(error: Exception, said: str) -> None:
    told = Player("openai:m").trouble(error)
    assert told is not None
    assert said in told
    assert "keyturn demo --scripted" in told
    assert "sk-secret" not in told


def test_what_a_provider_says_cannot_move_the_cursor() -> None:
    told = Player("openai:m").trouble(failed(500, "down\x1b[2J\nfor now"))
    assert told is not None
    assert "did not answer" in told
    assert "\x1b" not in told


def test_a_mistake_of_ours_is_not_a_providers_trouble() -> None:
    assert Player("openai:m").trouble(AttributeError("x")) is None
    assert Player("openai:m").trouble(ConnectionError("refused")) is not None
