"""The names of a run's context that users and the engine import; they are defined in `tools/context.py`."""

from __future__ import annotations

from ..tools.context import Known, LetRun, RunContextWrapper, TContext, ToolContext, WrapperDecision

AgentHookContext = RunContextWrapper

__all__ = ["AgentHookContext", "Known", "LetRun", "RunContextWrapper", "TContext", "ToolContext", "WrapperDecision"]
