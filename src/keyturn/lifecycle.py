"""Re-export hooks under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import AgentHooks as AgentHooks
from . import RunHooks as RunHooks
from .agents.hooks import AgentHooksBase as AgentHooksBase
from .agents.hooks import RunHooksBase as RunHooksBase
from .agents.hooks import TAgent as TAgent
from .support.missing import speaks

speaks(__name__)
