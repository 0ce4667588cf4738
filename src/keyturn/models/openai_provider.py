"""Re-export OpenAI's models by name under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .openai.provider import OpenAIProvider as OpenAIProvider

speaks(__name__)
