"""Say of a run what its caller said: its workflow, its session, its policy and its trace."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...core.items import Item
from ...core.priorities import NORMAL, PRIORITIES, Priority, check_priority, place_of
from ...core.shown_items import SECRETS, is_call, tool_key
from ...tools.base import Tool
from .frame_settings import FrameSettings

#: What a run says of where its session is kept, if its app does: another app may have a session of the same id.
STORE = "session_store"
#: How soon it is to be executed, if that is not as soon as others.
PRIORITY = "priority"


def about_priority(given: Priority) -> dict[str, Any]:
    """Return what a run records of its priority.

    >>> about_priority("batch"), about_priority("normal")
    ({'priority': 'batch'}, {})
    """
    return {} if check_priority(given) == PRIORITIES[NORMAL] else {PRIORITY: given}


def priority_of(about: Mapping[str, Any]) -> int:
    """Return the place of a run's priority, by which it is claimed."""
    return place_of(about.get(PRIORITY))


def session_name(about: Mapping[str, Any]) -> str:
    """Return by which name a store keeps the session of a run; "" where it has none that says its id.

    It is a digest: an id may be longer than an index takes, and names somebody.

    >>> session_name({"session": "ann"}) == session_name({"session_id": "ann"}), session_name({})
    (True, '')
    """
    said = about.get("session", about.get("session_id"))
    if not isinstance(said, str):
        return ""
    kept = about.get(STORE)
    words = f"keyturn session\n{said}" if kept is None else f"keyturn session of\n{kept}\n{said}"
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def about_run(given: dict[str, Any], scope: FrameSettings, session: object) -> dict[str, Any]:
    """Return what a run records of its caller's settings: what a resume needs to know, and what people look for."""
    config = scope.config
    about: dict[str, Any] = dict(given.get("about", {}))
    if config.workflow_name:
        about["workflow"] = config.workflow_name
    if scope.policy is not None:
        about["policy"] = True
    if given["conversation_id"] is not None:
        about["conversation_id"] = given["conversation_id"]
    if scope.chained:
        about["chained"] = True
    if isinstance(session := getattr(session, "session_id", None), str):
        about["session_id"] = session
    for name in ("trace_id", "group_id", "trace_metadata", "reasoning_item_id_policy"):
        if getattr(config, name) is not None:
            about[name] = getattr(config, name)
    return about


def secrets_of(agents: Iterable[Any], given: str | list[Any]) -> dict[str, Any]:
    """Return what a run records of its agents' tools: what each marks as secret; of others, those that its input calls.

    >>> secrets_of([], "hi")
    {}
    """
    items = [cast("Item", item) for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    called = {tool_key(item) for item in items if is_call(item)}
    known: dict[str, set[str]] = {}
    for tool in [each for agent in agents for each in (*agent.tools, *agent.handoffs) if isinstance(each, Tool)]:
        for name in {tool.name, tool.name if tool.call_field else tool.call_type}:
            if tool.secrets or name in called:
                known.setdefault(name, set()).update(tool.secrets)
    for item in items:
        if is_call(item) and isinstance(own := item.get(SECRETS), list):  # of an external caller, which says it itself
            known.setdefault(tool_key(item), set()).update(map(str, cast("list[Any]", own)))
    return {SECRETS: {name: sorted(known[name]) for name in sorted(known)}} if known else {}
