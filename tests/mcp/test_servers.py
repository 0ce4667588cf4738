"""Several servers together: one that fails does not take the others along."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import MCPServerError, MCPServerManager, UserError
from keyturn.mcp import MCPServer


class Fake(MCPServer):
    def __init__(self, name: str, fails: int = 0, hangs: bool = False) -> None:
        self.name, self.fails, self.hangs = name, fails, hangs
        self.said: list[str] = []

    async def connect(self) -> None:
        self.said.append("connect")
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            self.fails -= 1
            raise MCPServerError(self.name, "it is not there")

    async def cleanup(self) -> None:
        self.said.append("cleanup")
        if self.name == "messy":
            raise OSError("cannot close")

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        return []

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: Any = None) -> Any:
        raise AssertionError

    def invalidate_tools_cache(self) -> None: ...

    async def tools_for(self, context: Any, agent: Any) -> list[Any]:
        return []


@pytest.mark.each
@pytest.mark.parametrize("parallel", [False, True])
async def test_servers_that_fail_are_left_out_and_may_be_tried_again(parallel: bool) -> None:
    good, bad = Fake("good"), Fake("bad", fails=1)
    async with MCPServerManager([good, bad], connect_in_parallel=parallel) as several:
        assert (several.active_servers, several.failed_servers) == ([good], [bad])
        assert "it is not there" in str(several.errors[bad])
        assert await several.reconnect() == [good, bad]
        assert several.errors == {}
    assert good.said == ["connect", "cleanup"]
    assert bad.said == ["connect", "cleanup", "connect", "cleanup"]


@pytest.mark.each
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_strict_one_raises_and_leaves_nothing_open(parallel: bool) -> None:
    good, bad = Fake("good"), Fake("bad", fails=9)
    with pytest.raises(MCPServerError, match="it is not there"):
        await MCPServerManager([good, bad], strict=True, connect_in_parallel=parallel).connect_all()
    assert good.said == ["connect", "cleanup"]


async def test_failed_ones_may_be_kept_and_a_slow_one_is_bounded() -> None:
    slow = Fake("slow", hangs=True)
    several = MCPServerManager([slow], connect_timeout_seconds=0.05, drop_failed_servers=False)
    assert await several.connect_all() == [slow]
    assert "was not connected within 0.05 s" in str(several.errors[slow])


async def test_all_are_closed_whatever_one_does() -> None:
    messy, good = Fake("messy"), Fake("good")
    async with MCPServerManager([messy, good]) as several:
        assert len(several.active_servers) == 2
    assert isinstance(several.errors[messy], OSError)
    assert good.said[-1] == "cleanup"
    assert several.active_servers == []


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="one name"):
        MCPServerManager([Fake("a"), Fake("a")])
