"""Codex CLI: PreToolUse, and PermissionRequest in its approval path; to approve, a hook prints nothing.

An answer that Codex does not know in full is a failed hook, after which the command runs: so nothing is added to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .hooks_json import BadSettings
from .host import HookAnswer, HookCall, HookHost, call_of

_EVENTS = ("PermissionRequest", "PreToolUse")
_BEGIN, _END = "# keyturn hook: begin", "# keyturn hook: end"


def _read(sent: Mapping[str, Any]) -> HookCall | None:
    return call_of(sent) if sent.get("hook_event_name") in _EVENTS else None


def _answer(event: str, body: dict[str, Any]) -> HookAnswer:
    return HookAnswer(json.dumps({"hookSpecificOutput": {"hookEventName": event, **body}}, ensure_ascii=False))


def _allow(call: HookCall, edited: dict[str, Any] | None) -> HookAnswer:
    if call.event == "PermissionRequest":
        return _answer(call.event, {"decision": {"behavior": "allow"}})
    if edited is None:
        return HookAnswer()
    return _answer(call.event, {"permissionDecision": "allow", "updatedInput": edited})


def _deny(call: HookCall, reason: str) -> HookAnswer:
    if call.event == "PermissionRequest":
        return _answer(call.event, {"decision": {"behavior": "deny", "message": reason}})
    return _answer(call.event, {"permissionDecision": "deny", "permissionDecisionReason": reason})


def _edits(event: str) -> bool:
    return event == "PreToolUse"


def _quoted(text: str) -> str:
    """Return a string of TOML, which has no halves of characters as JSON may."""
    return json.dumps(text, ensure_ascii=False)


def _installed(text: str, command: str, seconds: int, must: str) -> str:
    before, begin, rest = text.partition(_BEGIN)
    if begin:
        _ours, end, after = rest.partition(_END)
        if not end:
            raise BadSettings(f"it has {_BEGIN!r} and no {_END!r}")
        text = before.rstrip("\n") + after
    if not command:
        return text.strip("\n") + "\n" if text.strip() else ""
    matcher = f"matcher = {_quoted(must)}\n" if must else ""
    lines = [_BEGIN]
    for event in _EVENTS:
        lines += [f"[[hooks.{event}]]", *([matcher.rstrip()] if matcher and event == "PreToolUse" else [])]
        lines += [
            f"[[hooks.{event}.hooks]]",
            'type = "command"',
            f"command = {json.dumps(command, ensure_ascii=False)}",
        ]
        lines += [f"timeout = {seconds}"]
    return "\n".join([*([text.rstrip("\n"), ""] if text.strip() else []), *lines, _END]) + "\n"


def _lines(text: str) -> list[str]:
    ours = text.partition(_BEGIN)[2].partition(_END)[0]
    return [line.strip() for line in ours.splitlines() if line.startswith("command")]


HOST = HookHost(
    "codex", "Codex CLI", "0.171.0", ".codex/config.toml", _read, _allow, _deny, _edits,
    _installed, _lines,
)  # fmt: skip
