"""Filter which tools of a server an agent gets at all, by name or by a callable.

A filter hides; it is no gate. A callable that fails hides the tool.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict, cast

from ..core.errors import UserError
from ..core.immutable import immutable
from ..user_code import answer_of, class_name

_LOG = logging.getLogger(__name__)


class ToolFilterStatic(TypedDict, total=False):
    """Lists the names to let through and the names to block; a name in both is blocked.

    >>> ToolFilterStatic(blocked_tool_names=["delete"])
    {'blocked_tool_names': ['delete']}
    """

    allowed_tool_names: list[str]
    blocked_tool_names: list[str]


@immutable
@dataclass(frozen=True)
class ToolFilterContext:
    """Holds what a callable filter may look at.

    >>> ToolFilterContext(None, None, "files").server_name
    'files'
    """

    run_context: Any
    agent: Any
    server_name: str


ToolFilter: TypeAlias = ToolFilterStatic | Callable[[ToolFilterContext, Any], bool | Awaitable[bool]] | None
_KEYS = {"allowed_tool_names", "blocked_tool_names"}


def create_static_tool_filter(
    allowed_tool_names: list[str] | None = None, blocked_tool_names: list[str] | None = None
) -> ToolFilterStatic | None:
    """Make a filter by name; None where neither list is given.

    >>> create_static_tool_filter(allowed_tool_names=["read"])
    {'allowed_tool_names': ['read']}
    """
    made: ToolFilterStatic = {}
    if allowed_tool_names is not None:
        made["allowed_tool_names"] = allowed_tool_names
    if blocked_tool_names is not None:
        made["blocked_tool_names"] = blocked_tool_names
    return made or None


def check_filter(given: object) -> None:
    """Refuse what is no filter, since a misspelt list would let everything through."""
    if given is None or (callable(given) and not isinstance(given, Mapping)):
        return
    if not isinstance(given, Mapping):
        raise UserError(f"tool_filter must be a callable, create_static_tool_filter(...) or None, not {given!r}")
    lists = cast("Mapping[str, Any]", given)
    wrong = [key for key in lists if key not in _KEYS]
    wrong += [key for key, names in lists.items() if not isinstance(names, list | tuple | set | frozenset)]
    if wrong:
        raise UserError(f"tool_filter: {wrong[0]!r} is not one of {sorted(_KEYS)}, each with a list of names")


async def lets_through(given: Any, context: ToolFilterContext, name: str, tool: Any) -> bool:
    """Return whether an agent gets a tool."""
    if given is None:
        return True
    if isinstance(given, Mapping):
        lists = cast("Mapping[str, Any]", given)
        allowed = lists.get("allowed_tool_names")
        return (allowed is None or name in allowed) and name not in lists.get("blocked_tool_names", ())
    try:
        answer = await answer_of(given, context, tool)
    except Exception as error:
        _LOG.warning("tool_filter of MCP server %r failed on %r: %r", context.server_name, name, class_name(error))
        return False
    return bool(answer)
