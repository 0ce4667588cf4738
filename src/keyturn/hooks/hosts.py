"""The coding agents whose hooks are known, by name."""

from __future__ import annotations

from importlib import import_module

from .host import HookHost

#: The file of each.
HOSTS = {
    "claude-code": "claude_code", "codex": "codex", "gemini": "gemini", "cursor": "cursor", "copilot": "copilot",
    "opencode": "opencode",
}  # fmt: skip


def host_named(name: str) -> HookHost:
    """Return the agent of that name.

    >>> host_named("codex").config
    '.codex/config.toml'
    """
    made: HookHost = import_module(f".{HOSTS[name]}", __package__).HOST
    return made
