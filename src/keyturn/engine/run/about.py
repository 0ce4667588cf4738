"""Say of a run what its caller said: its workflow, its session, its policy and its trace."""

from __future__ import annotations

from typing import Any

from .frame_settings import FrameSettings


def about_run(given: dict[str, Any], scope: FrameSettings, session: Any) -> dict[str, Any]:
    """Return what a run records of its caller's settings: what a resume needs to know, and what people look for."""
    config = scope.config
    about: dict[str, Any] = dict(given.get("about", {}))
    if config.workflow_name:
        about["workflow"] = config.workflow_name
    if config.policy is not None:
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
