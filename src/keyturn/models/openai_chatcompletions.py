"""A path of the OpenAI Agents SDK: models behind Chat Completions. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from .openai.chat import OpenAIChatCompletionsModel as OpenAIChatCompletionsModel

speaks(__name__)
