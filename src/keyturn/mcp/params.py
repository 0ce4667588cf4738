"""Check the `params` of a server: the command of one over stdio, the URL of one over HTTP."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..core.errors import UserError


def http_params(params: object, known: Collection[str]) -> dict[str, Any]:
    """Read the `params` of an HTTP server, or raise a `UserError` that says what is wrong with them."""
    given = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else {}
    url = given.get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise UserError('params of an MCP server over HTTP must name its address: {"url": "https://..."}')
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UserError(f"params of this MCP server have no {unknown[0]!r}, only {', '.join(sorted(known))}")
    return given


_KNOWN = {"command", "args", "env", "cwd"}


@dataclass(frozen=True)
class ServerCommand:
    """Holds the command, arguments, environment and directory of a server to start."""

    command: str
    args: list[str] = field(default_factory=list[str])
    env: dict[str, str] | None = None
    cwd: str | None = None


def stdio_command(params: object) -> ServerCommand:
    """Read the `params` of a stdio server, or raise a `UserError` that says what is wrong with them."""
    given = dict(cast("Mapping[str, Any]", params)) if isinstance(params, Mapping) else {}
    if not isinstance(given.get("command"), str) or not given["command"]:
        raise UserError('params of an MCP server over stdio must name what to start: {"command": "...", "args": [...]}')
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        raise UserError(f"params of an MCP server over stdio have no {unknown[0]!r}, only {', '.join(sorted(_KNOWN))}")
    cwd = given.get("cwd")
    return ServerCommand(
        given["command"], _args(given.get("args")), _env(given.get("env")), None if cwd is None else str(cwd)
    )


def _args(given: object) -> list[str]:
    if given is None:
        return []
    args = list(cast("list[Any]", given)) if isinstance(given, list | tuple) else [None]
    if not all(isinstance(each, str) for each in args):
        raise UserError(f"args of an MCP server over stdio must be a list of strings, not {given!r}")
    return cast("list[str]", args)


def _env(given: object) -> dict[str, str] | None:
    if given is None:
        return None
    env = dict(cast("Mapping[Any, Any]", given)) if isinstance(given, Mapping) else {None: None}
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in env.items()):
        raise UserError("env of an MCP server over stdio must be a mapping of strings to strings")  # it may hold keys
    return cast("dict[str, str]", env)
