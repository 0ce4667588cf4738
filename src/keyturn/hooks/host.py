"""What a coding agent sends to a hook and how it reads the answer: one `HookHost` for each, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from .named_once import parsed


class HookCall(NamedTuple):
    """Describes the call of which a coding agent tells its hook; `name` is its id there, "" where it has none.

    `server` names the MCP server of the tool, where the tool's name does not.
    """

    event: str
    session: str
    name: str
    tool: str
    arguments: dict[str, Any]
    folder: str
    server: str = ""


class HookAnswer(NamedTuple):
    """Holds what a hook prints and how it ends."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0


class HookHost(NamedTuple):
    """Describes one coding agent.

    `read` reads what it sends; None where the event is none to decide about. `allow` says that the call runs, with
    other arguments where these are given, `deny` that it does not. `edits` says for an event whether other arguments
    reach the agent. `config` is the file of its settings below the home directory, `installed` returns its text with
    the hook, `lines` the commands of hooks in it. `tried` is the version that the answers were tried with, "" for an
    agent whose documentation alone was read. `event` is what the agent calls the event before a tool runs, `project`
    the file of its settings below a project, where that is another one.
    """

    name: str
    title: str
    tried: str
    config: str
    read: Callable[[Mapping[str, Any]], HookCall | None]
    allow: Callable[[HookCall, dict[str, Any] | None], HookAnswer]
    deny: Callable[[HookCall, str], HookAnswer]
    edits: Callable[[str], bool]
    installed: Callable[[str, str, int, str], str]
    lines: Callable[[str], list[str]]
    event: str = "PreToolUse"
    project: str = ""


def call_of(sent: Mapping[str, Any], folder: str = "") -> HookCall:
    """Read the fields that Claude Code, Codex and Gemini CLI share."""
    return HookCall(
        str(sent["hook_event_name"]),
        str(sent["session_id"]),
        str(sent.get("tool_use_id") or ""),
        str(sent["tool_name"]),
        arguments_of(sent.get("tool_input")),
        str(sent.get("cwd") or folder),
    )


def arguments_of(given: object) -> dict[str, Any]:
    """Return the arguments of a call as an object: what is none is its only field.

    >>> arguments_of("ls")
    {'input': 'ls'}
    """
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {"input": given}


def read_arguments(given: object) -> dict[str, Any]:
    """Return arguments that are sent as the text of JSON, or as they are.

    >>> read_arguments('{"city": "Bern"}'), read_arguments("")
    ({'city': 'Bern'}, {'input': ''})
    """
    return arguments_of(parsed(given) if isinstance(given, str) and given else given)
