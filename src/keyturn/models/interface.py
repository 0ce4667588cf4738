"""A path of the OpenAI Agents SDK: what a model of your own is written against. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from .base import Model as Model
from .base import ModelProvider as ModelProvider
from .base import ModelTracing as ModelTracing

speaks(__name__)
