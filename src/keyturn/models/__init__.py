"""The language models: `base.py` is the seam, `routing.py` finds a member by name, one file is one member."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ..support.lazy import lazy_names
from .base import ModelProvider

_PLACE = "default_models"
_DEFAULTS = ("get_default_model", "get_default_model_settings", "gpt_5_reasoning_settings_required", "is_gpt_5_default")
_known, __dir__ = lazy_names(globals(), dict.fromkeys(_DEFAULTS, _PLACE))


def __getattr__(name: str) -> Any:
    if name == _PLACE:
        return import_module(f".{_PLACE}", __name__)
    return _known(name)


@cache
def default_provider() -> ModelProvider:
    """Return the provider that finds a model by name where the caller gave none."""
    provider: ModelProvider = import_module(".routing", __name__).MultiProvider()
    return provider
