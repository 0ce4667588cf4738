"""A server that is a program on this machine: started for us, spoken to over its input and output, and stopped."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NotRequired, Required, TypedDict, Unpack, cast

from ..core.digest import digest
from ..core.errors import UserError
from .options import ServerOptions, settings
from .pipes import Command, pipes
from .server import ProtocolServer


class MCPServerStdioParams(TypedDict, total=False):
    """What to start. The program gets `env` on top of a few harmless variables, never the environment of this process.

    >>> MCPServerStdioParams(command="python", args=["server.py"])["command"]
    'python'
    """

    command: Required[str]
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str] | None]
    cwd: NotRequired[str | Path | None]


class MCPServerStdio(ProtocolServer):
    """A server over stdio.

    >>> server = MCPServerStdio({"command": "python", "args": ["server.py"]}, require_approval="always")
    >>> server.name
    'stdio: python'
    """

    def __init__(
        self,
        params: MCPServerStdioParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        **options: Unpack[ServerOptions],
    ) -> None:
        self.params = params
        self._command = _command(params)
        chosen = settings(cache_tools_list, client_session_timeout_seconds, options)
        # Without a name of its own a server is what is started: another program is another server.
        started = digest(self._command.command, self._command.args, self._command.cwd) if name is None else ""
        super().__init__(f"stdio: {self._command.command}" if name is None else name, chosen, started)

    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """The program's input and output; what it says on its error output goes to ours."""
        return pipes(self._command, sys.__stderr__)


def _command(params: Any) -> Command:
    given = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else {}
    if not isinstance(given.get("command"), str) or not given["command"]:
        raise UserError('params of an MCP server over stdio must name what to start: {"command": "...", "args": [...]}')
    known = {"command", "args", "env", "cwd"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise UserError(f"params of an MCP server over stdio have no {unknown[0]!r}, only {', '.join(sorted(known))}")
    cwd = given.get("cwd")
    return Command(given["command"], list(given.get("args") or []), given.get("env"), None if cwd is None else str(cwd))
