"""Re-export types of final answers under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import AgentOutputSchema as AgentOutputSchema
from . import AgentOutputSchemaBase as AgentOutputSchemaBase
from .support.missing import speaks

speaks(__name__)
