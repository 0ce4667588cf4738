"""A path of the OpenAI Agents SDK: models behind the Responses API. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from .openai.responses import OpenAIResponsesModel as OpenAIResponsesModel

speaks(__name__)
