"""Re-export the context of a run under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import AgentHookContext as AgentHookContext
from . import RunContextWrapper as RunContextWrapper
from . import TContext as TContext
from .support.missing import speaks

speaks(__name__)
