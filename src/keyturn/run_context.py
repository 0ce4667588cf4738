"""A path of the OpenAI Agents SDK: the context of a run. It defines nothing."""

from __future__ import annotations

from . import AgentHookContext as AgentHookContext
from . import RunContextWrapper as RunContextWrapper
from . import TContext as TContext
from ._missing import speaks

speaks(__name__)
