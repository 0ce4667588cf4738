"""Gemini CLI: BeforeTool, whose calls have no id and whose timeouts are in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .hooks_json import command_lines, with_hooks
from .host import HookAnswer, HookCall, HookHost, call_of


def _read(sent: Mapping[str, Any]) -> HookCall | None:
    if sent.get("hook_event_name") != "BeforeTool":
        return None
    call = call_of(sent)
    return call._replace(name=str(sent.get("timestamp") or ""))


def _allow(_call: HookCall, edited: dict[str, Any] | None) -> HookAnswer:
    return HookAnswer("{}" if edited is None else json.dumps({"hookSpecificOutput": {"tool_input": edited}}))


def _deny(_call: HookCall, reason: str) -> HookAnswer:
    return HookAnswer(json.dumps({"decision": "deny", "reason": reason}, ensure_ascii=False))


def _edits(_event: str) -> bool:
    return True


def _installed(text: str, command: str, seconds: int, must: str) -> str:
    hook = {"type": "command", "command": command, "timeout": seconds * 1_000}
    return with_hooks(text, {"BeforeTool": [{"matcher": must or "*", "hooks": [hook]}]} if command else {})


HOST = HookHost(
    "gemini", "Gemini CLI", "0.61.0", ".gemini/settings.json", _read, _allow, _deny, _edits,
    _installed, command_lines, "BeforeTool",
)  # fmt: skip
