"""Hooks in settings files that are JSON: added once, and everything else left as it is."""

from __future__ import annotations

import json
import re
from typing import Any, cast

_OURS = re.compile(r"""keyturn['"]? hook """)


class BadSettings(ValueError):
    """Raised for a settings file that is not what the agent reads: it is left as it is."""


def with_hooks(text: str, wanted: dict[str, list[dict[str, Any]]], version: int | None = None) -> str:
    """Return the text of a settings file with these hooks by event, in the place of earlier ones of ours.

    Agents list the hooks of an event in groups, or one by one; `version` is of a file that states one.

    >>> made = with_hooks("", {"PreToolUse": [{"matcher": "*", "hooks": [{"command": "keyturn hook x"}]}]})
    >>> with_hooks(made, {}) == '{}' + chr(10)
    True
    """
    settings = _object(text)
    if version is not None:
        settings = {"version": version, **settings}
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise BadSettings('its "hooks" is no object')
    kept: dict[str, Any] = {}
    for event, groups in cast("dict[str, Any]", hooks).items():
        if not isinstance(groups, list):
            raise BadSettings(f"its hooks of {event} are no list")
        others = [_without_ours(group) for group in cast("list[Any]", groups)]
        if any(group is not None for group in others):
            kept[event] = [group for group in others if group is not None]
    for event, groups in wanted.items():
        kept[event] = [*kept.get(event, []), *groups]
    if kept:
        settings["hooks"] = kept
    else:
        settings.pop("hooks", None)
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def command_lines(text: str) -> list[str]:
    """Return the commands of the hooks of ours in a settings file."""
    hooks = _object(text).get("hooks", {})
    found: list[str] = []
    for event, groups in (cast("dict[str, Any]", hooks) if isinstance(hooks, dict) else {}).items():
        for group in cast("list[Any]", groups) if isinstance(groups, list) else []:
            found += [f"{event}: {command}" for command in map(_command, _hooks(group)) if _OURS.search(command)]
    return found


def _without_ours(group: Any) -> Any:
    """Return a group without the hooks of ours; None where it had no other."""
    hooks = _hooks(group)
    others = [hook for hook in hooks if not _OURS.search(_command(hook))]
    if len(others) == len(hooks):
        return group
    return {**group, "hooks": others} if others else None


def _hooks(group: object) -> list[Any]:
    """Return the hooks of a group; one that stands by itself is a group of one."""
    hooks: Any = cast("dict[str, Any]", group).get("hooks", [group]) if isinstance(group, dict) else []
    return cast("list[Any]", hooks) if isinstance(hooks, list) else []


def _command(hook: object) -> str:
    said = cast("dict[str, Any]", hook) if isinstance(hook, dict) else {}
    return str(said.get("command", said.get("bash", "")))


def _object(text: str) -> dict[str, Any]:
    try:
        made: Any = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise BadSettings(f"it is no JSON ({error})") from None
    if not isinstance(made, dict):
        raise BadSettings("it is no JSON object")
    return cast("dict[str, Any]", made)
