"""Cursor: a hook before each shell command and each call of an MCP tool; neither has an id, and none takes an edit.

Written by its documentation. A hook that fails lets the call run, unless it is `failClosed`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .hooks_json import BadSettings, command_lines, with_hooks
from .host import HookAnswer, HookCall, HookHost, read_arguments

_SHELL, _MCP = "beforeShellExecution", "beforeMCPExecution"


def _read(sent: Mapping[str, Any]) -> HookCall | None:
    event, server = sent.get("hook_event_name"), ""
    if event == _SHELL:
        tool, arguments = "Shell", {"command": str(sent["command"])}
    elif event == _MCP:
        tool, arguments = str(sent["tool_name"]), read_arguments(sent.get("tool_input"))
        server = _server(str(sent.get("url") or sent.get("command") or ""))
    else:
        return None
    folders: Any = sent.get("workspace_roots") or [""]
    return HookCall(
        event, str(sent["conversation_id"]), "", tool, arguments, str(sent.get("cwd") or folders[0]), server
    )


def _server(given: str) -> str:
    """Name an MCP server, of which Cursor gives the URL or the command: without what may be secret in it, and apart.

    >>> _server("https://ann:pw@mcp.example/v1?key=x")
    'MCP mcp.example 35e27d26e942'
    """
    if not given:
        return "MCP"
    shown = urlsplit(given).hostname if "://" in given.split(" ")[0] else os.path.basename(given.split(" ")[0])
    return f"MCP {(shown or '')[:100]} {hashlib.sha256(given.encode()).hexdigest()[:12]}"


def _allow(_call: HookCall, _edited: dict[str, Any] | None) -> HookAnswer:
    return HookAnswer('{"permission": "allow"}')


def _deny(_call: HookCall, reason: str) -> HookAnswer:
    said = {"permission": "deny", "user_message": reason, "agent_message": reason}
    return HookAnswer(json.dumps(said, ensure_ascii=False))


def _edits(_event: str) -> bool:
    return False


def _installed(text: str, command: str, seconds: int, must: str) -> str:
    if must:
        raise BadSettings("Cursor asks for each shell command and MCP call: omit --must")
    hook = {"command": command, "timeout": seconds, "failClosed": True}
    return with_hooks(text, {_SHELL: [hook], _MCP: [hook]} if command else {}, version=1)


HOST = HookHost(
    "cursor", "Cursor", "", ".cursor/hooks.json", _read, _allow, _deny, _edits,
    _installed, command_lines, _SHELL,
)  # fmt: skip
