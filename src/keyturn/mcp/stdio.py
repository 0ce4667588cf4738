"""The transport to a server that is a program on this machine, started for us and spoken to over stdin and stdout."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, NotRequired, Required, TypedDict, Unpack

from ..core.digest import digest
from ..core.settable import Rules
from .options import ServerOptions, connected_by, settings
from .params import stdio_command
from .protocol_server import ProtocolServer


class MCPServerStdioParams(TypedDict, total=False):
    """Says what to start.

    The program gets `env` on top of a few harmless variables, never the environment of this process.

    >>> MCPServerStdioParams(command="python", args=["server.py"])["command"]
    'python'
    """

    command: Required[str]
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str] | None]
    cwd: NotRequired[str | Path | None]


class MCPServerStdio(ProtocolServer):
    """Starts a server as a child process and speaks to it over stdio.

    >>> server = MCPServerStdio({"command": "python", "args": ["server.py"]}, require_approval="always")
    >>> server.name
    'stdio: python'
    """

    params: MCPServerStdioParams
    _rules: ClassVar[Rules] = {"params": connected_by(stdio_command)}

    def __init__(
        self,
        params: MCPServerStdioParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        **options: Unpack[ServerOptions],
    ) -> None:
        self.params = params
        self._unnamed = name is None
        chosen = settings(cache_tools_list, client_session_timeout_seconds, options)
        known, origin = self._known_as() or (name or "", "")
        super().__init__(known, chosen, origin)

    def _known_as(self) -> tuple[str, str] | None:
        # Without a name of its own a server is what is started: another program is another server.
        command = stdio_command(self.params)
        started = digest(command.command, command.args, command.cwd)
        return (f"stdio: {command.command}", started) if self._unnamed else None

    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Start the program; its stderr is shown on ours, marked as its own words."""
        from .pipes import pipes

        return pipes(stdio_command(self.params), self.name)
