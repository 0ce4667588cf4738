"""Claude Code: PermissionRequest, which fires where a person would be asked, and PreToolUse for tools that must ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .hooks_json import command_lines, with_hooks
from .host import HookAnswer, HookCall, HookHost, call_of

_EVENTS = ("PermissionRequest", "PreToolUse")


def _read(sent: Mapping[str, Any]) -> HookCall | None:
    return call_of(sent) if sent.get("hook_event_name") in _EVENTS else None


def _answer(event: str, body: dict[str, Any]) -> HookAnswer:
    return HookAnswer(json.dumps({"hookSpecificOutput": {"hookEventName": event, **body}}, ensure_ascii=False))


def _allow(call: HookCall, edited: dict[str, Any] | None) -> HookAnswer:
    changed = {} if edited is None else {"updatedInput": edited}
    if call.event == "PermissionRequest":
        return _answer(call.event, {"decision": {"behavior": "allow", **changed}})
    words = {"permissionDecision": "allow", "permissionDecisionReason": "approved in Keyturn"}
    return _answer(call.event, words | changed)


def _deny(call: HookCall, reason: str) -> HookAnswer:
    if call.event == "PermissionRequest":
        return _answer(call.event, {"decision": {"behavior": "deny", "message": reason}})
    return _answer(call.event, {"permissionDecision": "deny", "permissionDecisionReason": reason})


def _edits(_event: str) -> bool:
    return True


def _installed(text: str, command: str, seconds: int, must: str) -> str:
    hook = {"type": "command", "command": command, "timeout": seconds}
    groups = {"PermissionRequest": [{"matcher": "*", "hooks": [hook]}]}
    if must:
        groups["PreToolUse"] = [{"matcher": must, "hooks": [hook]}]
    return with_hooks(text, groups if command else {})


HOST = HookHost(
    "claude-code", "Claude Code", "2.1.332", ".claude/settings.json", _read, _allow, _deny, _edits,
    _installed, command_lines,
)  # fmt: skip
