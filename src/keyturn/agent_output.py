"""A path of the OpenAI Agents SDK: types of final answers. It defines nothing."""

from __future__ import annotations

from . import AgentOutputSchema as AgentOutputSchema
from . import AgentOutputSchemaBase as AgentOutputSchemaBase
from ._missing import speaks

speaks(__name__)
