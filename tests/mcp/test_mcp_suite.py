"""A remote tool keeps every promise that a tool of any kind keeps: the suite of the tools room, over a real session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from keyturn.core.items import Item
from keyturn.mcp.loop_thread import mcp_loop
from keyturn.models.scripted.model import function_call
from keyturn.testing import ToolSuite
from keyturn.testing.crash import Effects
from tests.mcp.conftest import Inside


class TestMCPTool(ToolSuite):
    mode = "auto"

    @pytest.fixture(autouse=True)
    def closed(self) -> Iterator[None]:
        self.servers: list[Inside] = []
        yield
        for server in self.servers:
            at_home_now(server.cleanup())

    def make_tool(self, effects: Effects, description: str = "Posts a word.", **settings: Any) -> Any:
        shop = MCPServer("shop")

        @shop.tool(description=description)
        async def post(word: str, ctx: Context[Any, Any], times: int = 1) -> str:
            key = dict(ctx.request_context.meta or {})["key"]
            effects.record(SimpleNamespace(idempotency_key=key), word * times)
            return f"posted {word}"

        needs = settings.pop("needs_approval", False)
        server = Inside(shop, mode=self.mode, require_approval=bool(needs), tool_meta_resolver=_key, **settings)
        self.servers.append(server)
        at_home_now(server.connect())
        [tool] = at_home_now(server.tools_for(None, None))
        tool.needs_approval = needs
        return tool

    def changed_tool(self, effects: Effects) -> Any:
        return self.make_tool(effects, "Posts a word, and all files.", needs_approval=True)

    def call(self, label: str, variant: int = 0) -> Item:
        return function_call("post", {"word": f"w{variant}"}, call_id=label)

    def edited(self) -> dict[str, Any]:
        return {"word": "w1"}


class TestMCPToolOfAnOlderServer(TestMCPTool):
    mode = "legacy"


def _key(asked: Any) -> dict[str, Any]:
    return {"key": asked.run_context.idempotency_key}


def at_home_now(work: Any) -> Any:
    """Await something from a place that cannot."""
    return asyncio.run_coroutine_threadsafe(work, mcp_loop()).result(20)
