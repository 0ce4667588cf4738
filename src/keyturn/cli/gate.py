"""The command `keyturn gate`: stand before an MCP server, and have calls of its tools wait for approval."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from ..core.errors import KeyturnError
from .printing import print_labelled

_HOLD = 50.0


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--server", metavar="URL", help="the Keyturn server (default: KEYTURN_SERVER)")
    parser.add_argument("--token-file", metavar="FILE", help="a token with the scope 'ask' (default: KEYTURN_TOKEN)")
    parser.add_argument(
        "--hold", type=float, default=_HOLD, metavar="SECONDS", help="how long a call waits, until it is to be repeated"
    )
    parser.add_argument(
        "--ungated", action="append", default=[], metavar="PATTERN", help="tools whose calls pass: 'read_*'"
    )
    parser.add_argument("--http", metavar="URL", help="the MCP server, over streamable HTTP")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the MCP server, over stdio: -- npx some-server")


def run(arguments: argparse.Namespace) -> int:
    """Serve on stdin and stdout until the client hangs up."""
    command = [word for number, word in enumerate(arguments.command) if number or word != "--"]
    server = arguments.server or os.environ.get("KEYTURN_SERVER")
    if bool(command) == bool(arguments.http):
        print_labelled("keyturn gate", "name one MCP server: keyturn gate -- COMMAND, or --http URL")
        return 2
    try:
        token = Path(arguments.token_file).read_text(encoding="utf-8").strip() if arguments.token_file else ""
        token = token or os.environ.get("KEYTURN_TOKEN", "")
        if not server or not token:
            print_labelled("keyturn gate", "set KEYTURN_SERVER and KEYTURN_TOKEN, or pass --server and --token-file")
            return 2
        asyncio.run(_serve(arguments, command, server, token))
    except (KeyturnError, OSError) as error:
        print_labelled("keyturn gate", str(error))
        return 1
    return 0


async def _serve(arguments: argparse.Namespace, command: list[str], server: str, token: str) -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    from ..client.client import AsyncClient
    from ..mcp_gate.proxy import McpGate

    theirs = {name: value for name, value in os.environ.items() if name != "KEYTURN_TOKEN"}  # which is not theirs
    at: Any = arguments.http or StdioServerParameters(command=command[0], args=command[1:], env=theirs)
    async with AsyncClient(server, token) as keyturn, Client(at) as up:
        await McpGate(up, keyturn.asks, hold=arguments.hold, ungated=arguments.ungated).serve()
