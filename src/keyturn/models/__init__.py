"""The language models: `base.py` is the seam, `routing.py` finds a member by name, one file is one member."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from .base import ModelProvider


@cache
def default_provider() -> ModelProvider:
    """Return the provider that finds a model by name where the caller gave none."""
    provider: ModelProvider = import_module(".routing", __name__).MultiProvider()
    return provider
