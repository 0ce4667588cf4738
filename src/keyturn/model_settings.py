"""Re-export how a model is asked under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import MCPToolChoice as MCPToolChoice
from . import ModelSettings as ModelSettings
from ._missing import speaks
from .models.tool_choice import ToolChoice as ToolChoice

speaks(__name__)
