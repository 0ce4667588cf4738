"""What a model costs is found by its name, and what was sent before a pause is sent again after it, byte for byte.

A provider's cache holds the beginning of a request: it is of use only where the next request begins with the same
bytes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from keyturn import Price, Runner, Usage, UserError, known_prices
from keyturn.models.openai.chat_reply import chat_usage
from keyturn.support.lazy import is_installed
from tests.models.errand import ASKED, decided, errand, script
from tests.models.test_crossing import MEMBERS, model_of
from tests.table import each

CONVERSATION = ("messages", "input", "contents")


def texts(body: Any) -> tuple[str, str]:
    """The conversation of a request without its closing bracket, and all that stands beside it, as they were sent."""
    [name] = [name for name in CONVERSATION if name in body]
    beside = {key: value for key, value in body.items() if key != name}
    return json.dumps(body[name], ensure_ascii=False)[:-1], json.dumps(beside, ensure_ascii=False)


@pytest.mark.parametrize("member", MEMBERS)
async def test_what_was_sent_before_a_pause_begins_what_is_sent_after_it(member: str) -> None:
    async with MEMBERS[member][0](script("c1", "c2")) as server:
        model = model_of(MEMBERS[member], server)
        agent = errand(model)
        paused = await Runner.run(agent, ASKED)
        await Runner.run(agent, await decided(agent, paused))  # through its text, as another process would
        await model.close()
    (before, beside), (after, beside_after) = (texts(request.json) for request in server.requests)
    assert beside == beside_after, "instructions, tools and settings keep their bytes and their order"
    assert after.startswith(before)
    assert len(after) > len(before)


@pytest.mark.skipif(not is_installed("genai_prices"), reason="needs the package genai-prices")
@each(
    ("name", "price"),
    [
        ("openai:gpt-5", Price("1.25", 10, "0.125")),
        ("gpt-5", Price("1.25", 10, "0.125")),
        ("openai-chat:gpt-5", Price("1.25", 10, "0.125")),
        ("anthropic/claude-sonnet-4-5", Price(3, 15, "0.3", "3.75")),
        ("ollama:qwen3", None),
        ("openai:no-such-model", None),
    ],
)
def test_a_price_is_found_by_the_name_of_the_model(name: str, price: Price | None) -> None:
    assert known_prices(name) == ({} if price is None else {name: price})
    usage = Usage()
    usage.count("gpt-5", Usage(1, 1_000_000).counts())
    assert usage.cost(known_prices("gpt-5")) == Price("1.25", 10).of(Usage(1, 1_000_000).counts())


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(UserError, match=r"pip install 'keyturn\[prices\]'"):
        known_prices("openai:gpt-5")


@each(
    ("given", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 7}}, 7),
        ({"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 3}, 7),  # DeepSeek
        ({"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 7}, 7),
        ({"prompt_cache_hit_tokens": "7"}, 0),
        ({}, 0),
    ],
)
def test_what_was_read_from_a_cache_is_counted_wherever_a_server_says_it(given: Any, cached: int) -> None:
    assert chat_usage({"prompt_tokens": 10, **given}).input_tokens_details.cached_tokens == cached
