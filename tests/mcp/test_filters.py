"""Which tools an agent gets."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import UserError, create_static_tool_filter
from keyturn.mcp.filters import ToolFilterContext, check_filter, lets_through
from tests.table import each

ABOUT = ToolFilterContext("run", "agent", "files")


async def kept(given: Any) -> list[str]:
    return [name for name in ("read", "write", "delete") if await lets_through(given, ABOUT, name, name.upper())]


async def test_names_let_through_and_keep_out() -> None:
    assert create_static_tool_filter() is None
    assert await kept(create_static_tool_filter(allowed_tool_names=["read", "write"])) == ["read", "write"]
    assert await kept(create_static_tool_filter(blocked_tool_names=["delete"])) == ["read", "write"]
    both = create_static_tool_filter(allowed_tool_names=["read", "delete"], blocked_tool_names=["delete"])
    assert await kept(both) == ["read"]
    assert await kept(create_static_tool_filter(allowed_tool_names=[])) == []


async def test_a_callable_says_sync_and_async() -> None:
    async def later(context: ToolFilterContext, tool: Any) -> bool:
        return (context.run_context, context.agent, context.server_name, tool) == ("run", "agent", "files", "READ")

    assert await kept(later) == ["read"]
    assert await kept(lambda _context, tool: tool != "DELETE") == ["read", "write"]


async def test_a_callable_that_fails_hides() -> None:
    def broken(_context: Any, tool: Any) -> bool:
        if tool == "WRITE":
            raise LookupError("flags are down")
        return True

    assert await kept(broken) == ["read", "delete"]


@each(
    "given", [{"allowed": ["read"]}, {"allowed_tool_names": "read"}, {"blocked_tool_names": None}, ["read"], "read", 3]
)
def test_what_is_no_filter_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match="tool_filter"):
        check_filter(given)
