"""Re-export agents and what they are made of under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import Agent as Agent
from . import AgentBase as AgentBase
from . import AgentToolStreamEvent as AgentToolStreamEvent
from . import StopAtTools as StopAtTools
from . import ToolsToFinalOutputFunction as ToolsToFinalOutputFunction
from . import ToolsToFinalOutputResult as ToolsToFinalOutputResult
from .agents.agent_base import MCPConfig as MCPConfig
from .support.missing import speaks

speaks(__name__)
