"""A path of the OpenAI Agents SDK: OpenAI's models by name. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from .openai.provider import OpenAIProvider as OpenAIProvider

speaks(__name__)
