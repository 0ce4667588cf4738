"""keyturn hook: let calls of a coding agent wait for a decision in the inbox."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..hooks.hosts import HOSTS

_ACTIONS = ("install", "uninstall", "status", "test")
_PROMPT = "permission-prompt"
_WAIT = 3_600
_UNTRIED = "untested: written by the agent's documentation and not tried with the program"


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.epilog = (
        "keyturn hook install claude-code --server URL --token-file FILE writes the hook into the agent's settings; "
        "`keyturn hook claude-code` is what the agent starts."
    )
    parser.add_argument(
        "what",
        choices=(*_ACTIONS, *HOSTS, _PROMPT),
        help="install, uninstall, status, test; the agent; or the MCP server for headless Claude Code",
    )
    parser.add_argument("host", nargs="?", choices=(*HOSTS,), help="the coding agent")
    parser.add_argument("--server", metavar="URL", help="the server that is asked")
    parser.add_argument("--token-file", metavar="FILE", help="a token with the scope 'ask'")
    parser.add_argument("--wait", type=int, default=_WAIT, metavar="SECONDS", help="how long a decision may take")
    parser.add_argument("--must", default="", metavar="TOOLS", help="tools that always ask, such as 'Bash|Write'")
    parser.add_argument("--project", action="store_true", help="the settings of this directory, not of your account")


def run(arguments: argparse.Namespace) -> int:
    """Answer the agent, or change its settings."""
    if arguments.what in HOSTS:
        return _hook(arguments)
    if arguments.what == _PROMPT:
        return _prompt(arguments)
    if arguments.what != "status" and arguments.host is None:
        return _failed(f"name the agent: keyturn hook {arguments.what} {' | '.join(HOSTS)}")
    return {"install": _install, "uninstall": _uninstall, "status": _status, "test": _test}[arguments.what](arguments)


def _failed(words: str) -> int:
    print(f"keyturn hook: {words}", file=sys.stderr)
    return 2


def _hook(arguments: argparse.Namespace) -> int:
    """Be the hook: only its answer goes to stdout, and every failure is a refusal."""
    try:
        from ..hooks.hook import answered
        from ..hooks.hosts import host_named
        from ..hooks.installing import place
        from ..hooks.server import AskServer

        sent = sys.stdin.buffer.read().decode()  # agents write and read UTF-8, whatever the locale is
        made = answered(host_named(arguments.what), sent, AskServer(*place()), arguments.wait)
        sys.stdout.buffer.write(made.stdout.encode())
        sys.stdout.buffer.flush()
        if made.stderr:
            print(made.stderr, file=sys.stderr)
        return made.code
    except BaseException as error:
        return _failed(f"not approved: {error or type(error).__name__}")


def _prompt(arguments: argparse.Namespace) -> int:
    """Serve the permission prompt tool of headless Claude Code over MCP, on stdin and stdout."""
    import asyncio

    from ..hooks.installing import NoPlace, place
    from ..hooks.server import AskServer

    try:
        from ..mcp_gate.permission_prompt import serve

        server, token = place()
        asyncio.run(serve(lambda: AskServer(server, token), arguments.wait))
    except ImportError as error:
        return _failed(f"this needs more packages: pip install 'keyturn[mcp]' ({error})")
    except NoPlace as error:
        return _failed(str(error))
    return 0


def _install(arguments: argparse.Namespace) -> int:
    from ..core.errors import KeyturnError
    from ..hooks.hooks_json import BadSettings
    from ..hooks.hosts import host_named
    from ..hooks.installing import NoPlace, config_of, install, keep_place, place
    from .with_journal import token_of

    host = host_named(arguments.host)
    if arguments.token_file and not arguments.server:
        return _failed("--token-file is for the server that --server names")
    try:
        if arguments.server:
            token = token_of(arguments)
            if not token:
                return _failed("a token is needed: --token-file FILE, or KEYTURN_TOKEN")
            print(f"Server and token: {keep_place(arguments.server, token)}")
        place()
        path = config_of(host, project=arguments.project)
        install(host, path, arguments.wait, arguments.must)
    except (NoPlace, BadSettings, KeyturnError, OSError) as error:
        return _failed(str(error))
    print(f"Hook: {path}")
    if not host.tried:
        print(f"{host.title}: {_UNTRIED}")
    print(f"Try it: keyturn hook test {arguments.host}")
    return 0


def _uninstall(arguments: argparse.Namespace) -> int:
    from ..hooks.hooks_json import BadSettings
    from ..hooks.hosts import host_named
    from ..hooks.installing import config_of, uninstall

    host = host_named(arguments.host)
    path = config_of(host, project=arguments.project)
    try:
        uninstall(host, path)
    except (BadSettings, OSError) as error:
        return _failed(str(error))
    print(f"Hook removed: {path}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from ..hooks.hooks_json import BadSettings
    from ..hooks.hosts import host_named
    from ..hooks.installing import NoPlace, config_of, place, settings_of
    from ..hooks.server import AskServer, ServerRefused

    code = 0
    for name in [arguments.host] if arguments.host else HOSTS:
        host = host_named(name)
        path = config_of(host, project=arguments.project)
        try:
            lines = host.lines(settings_of(path))
        except BadSettings as error:
            lines, code = [f"unreadable: {error}"], 1
        untried = "" if host.tried else f"; {_UNTRIED}"
        print(f"{host.title}: {'installed' if lines else 'not installed'} ({path}{untried})")
        for line in lines:
            print(f"  {line}")
    try:
        server, token = place()
        AskServer(server, token).get("/me")
        print(f"Server: {server} answers")
    except (NoPlace, ServerRefused) as error:
        print(f"Server: {error}")
        code = 1
    return code


def _test(arguments: argparse.Namespace) -> int:
    """Send a request as the agent would, and show what it would be answered."""
    import json

    from ..hooks.hook import answered
    from ..hooks.hosts import host_named
    from ..hooks.installing import NoPlace, place
    from ..hooks.server import AskServer, ServerRefused

    host = host_named(arguments.host)
    call = {"command": "echo 'a test of the hook: approve or reject it'"}
    session = f"test {os.getpid()}"
    sent = {  # in the words of all agents: each reads its own
        "hook_event_name": host.event, "session_id": session, "tool_use_id": "test", "tool_name": "Bash",
        "tool_input": call, "conversation_id": session, "command": call["command"], "toolName": "Bash",
        "toolArgs": call, "cwd": str(Path.cwd()),
    }  # fmt: skip
    try:
        server, token = place()
        print(f"Waiting for a decision at {server} ...", flush=True)
        made = answered(host, json.dumps(sent), AskServer(server, token), arguments.wait)
    except (NoPlace, ServerRefused) as error:
        return _failed(str(error))
    print(made.stdout or "(no output: the call runs)")
    return 0
