"""GitHub Copilot CLI and its cloud agent: preToolUse, whose fields have names of their own and no event.

Written by its documentation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .hooks_json import BadSettings, command_lines, with_hooks
from .host import HookAnswer, HookCall, HookHost, read_arguments

_EVENT = "preToolUse"


def _read(sent: Mapping[str, Any]) -> HookCall | None:
    if "toolName" not in sent or "toolArgs" not in sent:
        return None
    session, name = str(sent.get("sessionId") or ""), str(sent.get("toolCallId") or "")
    arguments, folder = read_arguments(sent["toolArgs"]), str(sent.get("cwd") or "")
    return HookCall(_EVENT, session, name, str(sent["toolName"]), arguments, folder)


def _allow(_call: HookCall, edited: dict[str, Any] | None) -> HookAnswer:
    changed = {} if edited is None else {"modifiedArgs": edited}
    return HookAnswer(json.dumps({"permissionDecision": "allow", **changed}, ensure_ascii=False))


def _deny(_call: HookCall, reason: str) -> HookAnswer:
    return HookAnswer(
        json.dumps({"permissionDecision": "deny", "permissionDecisionReason": reason}, ensure_ascii=False)
    )


def _edits(_event: str) -> bool:
    return True


def _installed(text: str, command: str, seconds: int, must: str) -> str:
    if must:
        raise BadSettings("Copilot asks for each call of a tool: omit --must")
    hook = {"type": "command", "bash": command, "timeoutSec": seconds}
    return with_hooks(text, {_EVENT: [hook]} if command else {}, version=1)


HOST = HookHost(
    "copilot", "GitHub Copilot CLI", "", ".copilot/hooks/keyturn.json", _read, _allow, _deny, _edits,
    _installed, command_lines, _EVENT, ".github/hooks/keyturn.json",
)  # fmt: skip
