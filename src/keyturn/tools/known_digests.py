"""Recognize a tool by a digest that was recorded of it, with whichever key what is secret in it was marked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..support.marking import under_older_keys
from .base import Tool, tool_digest


def is_tool(tool: Tool, call: Mapping[str, Any], known: str) -> bool:
    """Return whether a recorded digest is that of a tool as it is now."""
    now = tool_digest(tool, call)
    return now == known or known in older_digests(tool, call)


def known_as(tool: Tool, call: Mapping[str, Any], now: str, known: Collection[str]) -> str:
    """Return the digest under which a tool is known, else the one that it has now."""
    if not known or now in known:
        return now
    return next((each for each in older_digests(tool, call) if each in known), now)


def older_digests(tool: Tool, call: Mapping[str, Any]) -> Iterator[str]:
    """Yield the digests of a tool as it is now, with what is secret in it marked by each key but the newest."""
    return under_older_keys(lambda: tool_digest(tool, call))
