"""OpenAI's defaults are set once, checked, and counted so that nothing older is reused."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core.errors import UserError
from keyturn.models.openai import defaults


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "OPENAI", defaults.OpenAIDefaults())


def test_each_setting_is_kept_and_counted() -> None:
    defaults.set_default_openai_key("sk-1", use_for_tracing=False)
    defaults.set_default_openai_client("client")
    defaults.set_default_openai_api("chat_completions")
    kept = defaults.OPENAI
    assert (kept.key, kept.client, kept.api, kept.use_for_tracing) == ("sk-1", "client", "chat_completions", True)
    assert kept.changes == 3


@pytest.mark.parametrize("key", ["", None, 3])
def test_a_key_that_is_none_is_refused(key: Any) -> None:
    with pytest.raises(UserError, match="is the variable it comes from set"):
        defaults.set_default_openai_key(key)


def test_other_wrong_values_are_refused() -> None:
    with pytest.raises(UserError, match="needs an AsyncOpenAI client"):
        defaults.set_default_openai_client(None)
    with pytest.raises(UserError, match="'responses' or 'chat_completions', not 'chat'"):
        defaults.set_default_openai_api("chat")
    assert defaults.OpenAIDefaults() == defaults.OPENAI
