"""Every model setting over every wire format: sent, refused, or not there; and the manual's table says which."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from keyturn import UserError
from keyturn.models.base import ModelSettings
from tests.models.test_crossing import MEMBERS, model_of
from tests.table import each

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "models.md"

VALUES: dict[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.5,
    "frequency_penalty": 0.125,
    "presence_penalty": 0.375,
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "truncation": "auto",
    "max_tokens": 321,
    "reasoning": {"effort": "high"},
    "verbosity": "low",
    "metadata": {"user_id": "u_1"},
    "store": False,
    "prompt_cache_retention": "24h",
    "include_usage": False,
    "response_include": ["reasoning.encrypted_content"],
    "top_logprobs": 3,
    "extra_query": {"q": "1"},
    "extra_body": {"odd": 1},
    "extra_headers": {"x-odd": "1"},
    "extra_args": {"seed": 7},
    "timeout": 12.5,
}
# How often it is asked again is no part of a request; beside each member it is tested that it counts.
NOT_SENT = {"retry"}

# Of what belongs to the line, these say what a run cannot know.
_OURS = re.compile(r"^(x-odd|x-stainless-.*timeout|x-server-timeout|.*timeout.*)$")


def table() -> dict[str, dict[str, str]]:
    """The manual's table: of each setting, by provider, what becomes of it."""
    lines = MANUAL.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("| `ModelSettings` |"))
    rows: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for setting in re.findall(r"`(\w+)`", name):
            rows[setting] = dict(zip(("openai", "openai-chat", "anthropic", "google"), cells, strict=True))
    return rows


async def asked(provider: str, payer: Any, **settings: Any) -> tuple[Any, ...]:
    """What a streamed request with one setting was, or the error in its place."""
    member = MEMBERS[provider]
    async with member[0](["hello"]) as server:
        model = model_of(member, server)
        told = ModelSettings(**settings)
        async for _event in model.stream_response(None, "hi", told, [payer], None, [], None):
            pass
        await model.close()
    [request] = server.requests
    headers = {name: value for name, value in request.headers.items() if _OURS.match(name)}
    return request.json, request.query, headers


def test_no_setting_is_forgotten() -> None:
    names = {field.name for field in fields(ModelSettings)}
    assert VALUES.keys() | NOT_SENT == names
    assert table().keys() == names


@each("provider", MEMBERS)
async def test_a_setting_becomes_what_the_manual_says(provider: str, payer: Any) -> None:
    before, manual = await asked(provider, payer), table()
    for name, value in VALUES.items():
        said = manual[name][provider]
        if said.startswith("error"):
            with pytest.raises(UserError, match=name):
                await asked(provider, payer, **{name: value})
            continue
        sent = await asked(provider, payer, **{name: value}) != before
        assert sent == (said != ""), f"{name}, sent to {provider}: {sent}; the manual says {said!r}"
