"""The transport to a server that is a program on this machine, started for us and spoken to over stdin and stdout."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NotRequired, Required, TypedDict, Unpack

from ..core.digest import digest
from .options import ServerOptions, settings
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

    def __init__(
        self,
        params: MCPServerStdioParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        **options: Unpack[ServerOptions],
    ) -> None:
        self.params = params
        self._command = stdio_command(params)
        chosen = settings(cache_tools_list, client_session_timeout_seconds, options)
        # Without a name of its own a server is what is started: another program is another server.
        started = digest(self._command.command, self._command.args, self._command.cwd) if name is None else ""
        super().__init__(f"stdio: {self._command.command}" if name is None else name, chosen, started)

    def transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Start the program; its stderr is shown on ours, marked as its own words."""
        from .pipes import pipes

        return pipes(self._command, self.name)
