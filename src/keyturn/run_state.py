"""Re-export a paused run under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import RunState as RunState
from . import TContext as TContext
from .agents.hooks import TAgent as TAgent
from .support.missing import speaks

speaks(__name__)
