"""A path of the OpenAI Agents SDK: how a model is asked. It defines nothing."""

from __future__ import annotations

from . import MCPToolChoice as MCPToolChoice
from . import ModelSettings as ModelSettings
from ._missing import speaks
from .models.tool_choice import ToolChoice as ToolChoice

speaks(__name__)
