"""The context of a run, as the code around agents knows it. It is defined below, in the room of the tools it is
given to; nothing is defined here but the names that users and the engine import.
"""

from __future__ import annotations

from ..tools.context import Known, LetRun, RunContextWrapper, TContext, ToolContext, WrapperDecision

AgentHookContext = RunContextWrapper

__all__ = ["AgentHookContext", "Known", "LetRun", "RunContextWrapper", "TContext", "ToolContext", "WrapperDecision"]
