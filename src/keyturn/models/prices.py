"""Prices of models that are kept elsewhere: those of the package `genai-prices`, by the names that models have here.

It knows several thousand models and is data alone: nothing is fetched. A price that grows with the length of a prompt
is given as that of a short one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..core.errors import UserError
from ..core.usage import Price
from .routing import split_name

# What the package calls a provider, where it is not the prefix.
_PROVIDERS = {
    "openai-chat": "openai",
    "azure-chat": "azure",
    "bedrock": "aws",
    "vertex": "google",
    "xai": "x-ai",
}


def known_prices(*models: str) -> dict[str, Price]:
    """Return the prices of these models in US dollars, without those that the package `genai-prices` does not know.

    >>> sorted(known_prices("openai:gpt-5", "ollama:qwen3"))
    ['openai:gpt-5']
    """
    try:
        from genai_prices import data_snapshot
    except ModuleNotFoundError as error:
        raise UserError(f"prices need the package {error.name!r}: pip install 'keyturn[prices]'") from error
    found = {name: _price(data_snapshot.get_snapshot(), name) for name in models}
    return {name: price for name, price in found.items() if price is not None}


def _price(snapshot: Any, name: str) -> Price | None:
    prefix, model = split_name(name)
    provider = "openai" if prefix is None else _PROVIDERS.get(prefix, prefix)
    try:
        _, info = snapshot.find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    prices: Any = info.get_prices(datetime.now(UTC))
    sent, received = _base(prices, "input_mtok"), _base(prices, "output_mtok")
    if sent is None or received is None:
        return None
    return Price(sent, received, _base(prices, "cache_read_mtok"), _base(prices, "cache_write_mtok"))


def _base(prices: Any, name: str) -> Any:
    given = getattr(prices, name, None)
    return getattr(given, "base", given)
