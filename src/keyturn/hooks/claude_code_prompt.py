"""Claude Code without a terminal: the tool that is called where a person would be asked, `--permission-prompt-tool`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .claude_code import HOST as _HOST
from .host import HookAnswer, HookCall, call_of

_EVENT = "PermissionPrompt"


def _read(sent: Mapping[str, Any]) -> HookCall | None:
    if not isinstance(sent.get("tool_name"), str):
        return None
    return call_of({**sent, "hook_event_name": _EVENT, "tool_input": sent.get("input")})


def _allow(call: HookCall, edited: dict[str, Any] | None) -> HookAnswer:
    return _answer({"behavior": "allow", "updatedInput": call.arguments if edited is None else edited})


def _deny(_call: HookCall, reason: str) -> HookAnswer:
    return _answer({"behavior": "deny", "message": reason})


def _answer(body: dict[str, Any]) -> HookAnswer:
    return HookAnswer(json.dumps(body, ensure_ascii=False))


HOST = _HOST._replace(read=_read, allow=_allow, deny=_deny)
