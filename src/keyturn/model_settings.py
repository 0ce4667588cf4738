"""Re-export how a model is asked under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import MCPToolChoice as MCPToolChoice
from . import ModelSettings as ModelSettings
from .models.tool_choice import ToolChoice as ToolChoice
from .support.missing import speaks

speaks(__name__)
