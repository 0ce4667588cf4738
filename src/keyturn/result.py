"""Re-export what a run came to under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from . import AgentToolInvocation as AgentToolInvocation
from . import RunResult as RunResult
from . import RunResultStreaming as RunResultStreaming
from .support.missing import speaks

RunResultBase = RunResult

speaks(__name__)
