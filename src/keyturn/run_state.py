"""Re-export a paused run under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import RunState as RunState
from . import TContext as TContext
from ._missing import speaks
from .agents.hooks import TAgent as TAgent

speaks(__name__)
