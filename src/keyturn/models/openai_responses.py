"""Re-export models behind the Responses API under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .openai.responses import OpenAIResponsesModel as OpenAIResponsesModel

speaks(__name__)
