"""Re-export models behind Chat Completions under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .openai.chat import OpenAIChatCompletionsModel as OpenAIChatCompletionsModel

speaks(__name__)
