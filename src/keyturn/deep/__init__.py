"""Deep agents: files, commands, a plan and subagents in one call, and `interrupt_on` says what waits for a person."""

from __future__ import annotations

from ..tools.backends.backend import Backend
from ..tools.backends.composite import CompositeBackend
from ..tools.backends.folder import FilesystemBackend, SandboxBackend
from ..tools.backends.state import FileData, StateBackend
from .agent import DeepAgent, create_deep_agent
from .compaction import Compaction
from .create import SubAgent
from .create import SubAgent as SubAgentConfig
from .deps import DeepAgentDeps, Todo

__all__ = [
    "Backend",
    "Compaction",
    "CompositeBackend",
    "DeepAgent",
    "DeepAgentDeps",
    "FileData",
    "FilesystemBackend",
    "SandboxBackend",
    "StateBackend",
    "SubAgent",
    "SubAgentConfig",
    "Todo",
    "create_deep_agent",
]
