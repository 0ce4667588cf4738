"""The command `keyturn gate`: stand before an MCP server, and have calls of its tools wait for approval."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
from typing import Any, cast

from ..core.errors import KeyturnError
from .between import command_of, describe_asking, environment_behind
from .printing import print_labelled
from .with_journal import SERVER, TOKEN, token_of

_HOLD = 50.0
_KEEP = 3_600.0


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    describe_asking(parser)
    parser.add_argument(
        "--hold", type=float, default=_HOLD, metavar="SECONDS", help="how long a call waits, until it is to be repeated"
    )
    parser.add_argument(
        "--ungated", action="append", default=[], metavar="PATTERN", help="tools whose calls pass: 'read_*'"
    )
    parser.add_argument(
        "--keep", type=float, default=_KEEP, metavar="SECONDS", help="how long a request stays open to be joined"
    )
    parser.add_argument("--name", default="", help="what policies and approvers know the MCP server by")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="serve over streamable HTTP; each client shows a token of its own"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another host name that requests may use"
    )
    parser.add_argument("--secure", action="store_true", help="a reverse proxy in front terminates TLS (https)")
    parser.add_argument("--http", metavar="URL", help="the MCP server, over streamable HTTP")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the MCP server, over stdio: -- npx some-server")


def run(arguments: argparse.Namespace) -> int:
    """Serve on stdin and stdout until the client hangs up, or over HTTP until it is stopped."""
    command = command_of(arguments)
    server = arguments.server or os.environ.get(SERVER)
    if bool(command) == bool(arguments.http):
        print_labelled("keyturn gate", "name one MCP server: keyturn gate -- COMMAND, or --http URL")
        return 2
    try:
        token = "" if arguments.listen else token_of(arguments)
        if not server or not (token or arguments.listen):
            print_labelled("keyturn gate", f"set {SERVER} and {TOKEN}, or pass --server and --token-file")
            return 2
        asyncio.run(_serve(arguments, command, server, token or ""))
    except ImportError as error:
        print_labelled("keyturn gate", f"the gate needs more packages: pip install 'keyturn[mcp]' ({error})")
        return 2
    except (KeyturnError, OSError) as error:
        print_labelled("keyturn gate", str(error))
        return 1
    except ExceptionGroup as group:
        print_labelled("keyturn gate", f"the MCP server or its client failed: {_first_of(group)}")
        return 1
    return 0


def _first_of(error: Exception) -> str:
    """Return the first error of a group, by its kind and words."""
    if isinstance(error, ExceptionGroup):
        return _first_of(cast("ExceptionGroup[Exception]", error).exceptions[0])
    return f"{type(error).__name__}: {error}"


async def _serve(arguments: argparse.Namespace, command: list[str], server: str, token: str) -> None:
    from mcp.client.stdio import StdioServerParameters

    from ..mcp_gate.starting import GateSettings, listening_address, serve_http, serve_stdio

    at: Any = arguments.http or StdioServerParameters(command=command[0], args=command[1:], env=environment_behind())
    known = arguments.name or arguments.http or shlex.join(command)
    settings = GateSettings(server, known, arguments.name, arguments.hold, arguments.keep, tuple(arguments.ungated))
    if arguments.listen:
        address = listening_address(arguments.listen, tuple(arguments.allow_host), secure=arguments.secure)
        await serve_http(at, settings, address, _tell)
    else:
        await serve_stdio(at, settings, token, _tell)


def _tell(text: str) -> None:
    print_labelled("keyturn gate", text)
