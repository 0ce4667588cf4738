"""What each transport survives, alike: a server killed within a call, before it, started again, slow, flooding, left.

A call that was in flight when its server died is in doubt and never sent again by itself; the next one finds it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, MCPServerSse, MCPServerStreamableHttp, Runner
from keyturn.mcp import pipes
from keyturn.testing import approve_all
from tests.effort import AT_LENGTH
from tests.mcp.conftest import Program, calling, log, logged, over_stdio
from tests.playing import play, read, through_text

OPTIONS: dict[str, Any] = {"require_approval": {"never": {"tool_names": ["weather"]}}}


class OverStdio:
    """A program that is started whenever it is needed."""

    def __init__(self, shop: Path, **options: Any) -> None:
        self.shop, self.options = shop, OPTIONS | options

    def server(self, seconds: float = 20) -> Any:
        return over_stdio(self.shop, seconds, **self.options)

    def kill(self) -> None:
        for group in list(pipes._GROUPS):  # pyright: ignore[reportPrivateUsage]  # nobody else knows the processes
            os.kill(group, signal.SIGKILL)

    def start(self) -> None:
        """The next call does it."""


class OverHttp:
    """A program at an address."""

    def __init__(self, program: Program, kind: Any, **options: Any) -> None:
        self.program, self.shop, self.kind, self.options = program, program.shop, kind, OPTIONS | options

    def server(self, seconds: float = 20) -> Any:
        params = {"url": self.program.url}
        return self.kind(params, name="shop", client_session_timeout_seconds=seconds, **self.options)

    def kill(self) -> None:
        self.program.kill()

    def start(self) -> None:
        self.program.start()


def site_of(transport: str, shop: Path, program: Any) -> Any:
    transport, _, older = transport.partition(", ")
    mode: dict[str, Any] = {"mode": "legacy"} if older else {}
    if transport == "stdio":
        return OverStdio(shop, **mode)
    if transport == "sse":
        return OverHttp(program("sse"), MCPServerSse)
    return OverHttp(program("streamable-http"), MCPServerStreamableHttp, **mode)


@pytest.fixture(params=["stdio", "stdio, older", "sse", "http", "http, older"])
def site(request: pytest.FixtureRequest, programs: Any, shop: Path) -> Any:
    """A shop over one of the transports, to be killed."""
    return site_of(request.param, shop, programs)


@pytest.fixture(scope="module", params=["stdio", "sse", "http"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The same, for tests that leave it as it is."""
    shop = tmp_path_factory.mktemp("shop")
    with ExitStack() as stack:

        def program(transport: str) -> Program:
            return stack.enter_context(Program(transport, shop))

        yield site_of(request.param, shop, program)


@pytest.fixture
def site_kept(kept: Any) -> Any:
    (kept.shop / "log").write_text("")
    return kept


async def paused(server: Any, *calls: tuple[str, Any], streamed: bool = False) -> tuple[Agent[Any], Any]:
    agent = calling(server, calls=list(calls))
    return agent, await play(agent, streamed=streamed)


async def it_still_works(server: Any) -> None:
    _, result = await paused(server, ("weather", {"city": "Rome"}))
    assert "21.5" in result.final_output


async def test_a_call_whose_server_is_killed_is_in_doubt_and_the_next_finds_it_again(site: Any, streamed: bool) -> None:
    async with site.server() as server:
        agent, result = await paused(server, ("slow", {}), ("pay", {"to": "ada", "amount": 2}), streamed=streamed)
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        resumed = asyncio.create_task(play(agent, state, streamed=streamed))
        await logged(site.shop, "slow began")
        site.kill()
        result = await resumed
        assert {item.name: item.kind for item in result.interruptions} == {"slow": "in_doubt", "pay": "approval"}
        site.start()
        state = await through_text(agent, result.to_state())
        state.approve(state.get_interruptions()[1])
        result = await play(agent, state, streamed=streamed)
        [slow] = result.interruptions
        assert (slow.name, slow.kind, log(site.shop)) == ("slow", "in_doubt", ["slow began", "pay ada 2"])
        state = result.to_state()
        state.resolve(slow, "did_not_run")
        assert (await play(agent, state, streamed=streamed)).final_output.endswith("paid 2 to ada")
        assert log(site.shop) == ["slow began", "pay ada 2"], "never silently again"


async def test_a_server_killed_between_approval_and_call(site: Any) -> None:
    async with site.server() as server:
        for streamed in (False, True):
            agent, result = await paused(server, ("pay", {"to": "ada", "amount": 2}), streamed=streamed)
            site.kill()
            site.start()
            assert (await play(agent, approve_all(result), streamed=streamed)).final_output == "paid 2 to ada"
        assert log(site.shop) == ["pay ada 2"] * 2


async def test_a_server_that_hangs_is_in_doubt_in_time(site_kept: Any) -> None:
    async with site_kept.server(seconds=1.5) as server:
        for streamed in (False, True):
            agent, result = await paused(server, ("slow", {}), streamed=streamed)
            [item] = (await play(agent, approve_all(result), streamed=streamed)).interruptions
            assert (item.kind, item.reason) == ("in_doubt", "MCP server 'shop': it did not answer within 1.5 s")
            await logged(site_kept.shop, "slow was cancelled")
        await it_still_works(server)


async def test_a_run_that_is_cancelled_cancels_the_call(site_kept: Any) -> None:
    async with site_kept.server() as server:
        agent, result = await paused(server, ("slow", {}))
        task = asyncio.create_task(play(agent, approve_all(result)))
        await logged(site_kept.shop, "slow began")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await logged(site_kept.shop, "slow was cancelled")
        await it_still_works(server)


async def test_a_stream_that_is_cancelled_leaves_its_call_in_doubt(site_kept: Any) -> None:
    async with site_kept.server() as server:
        agent, result = await paused(server, ("slow", {}), streamed=True)
        stream = Runner.run_streamed(agent, approve_all(result))
        await logged(site_kept.shop, "slow began")
        stream.cancel(mode="immediate")
        await read(stream)
        [item] = stream.interruptions
        assert (item.name, item.kind) == ("slow", "in_doubt")
        await logged(site_kept.shop, "slow was cancelled")
        await it_still_works(server)


async def test_a_flood_is_not_read_and_drowns_no_later_call(site_kept: Any) -> None:
    ways = (False, True) if AT_LENGTH else (True,)
    async with site_kept.server() as server:
        for streamed in ways:
            agent, result = await paused(server, ("flood", {"size": 20_000_000}), streamed=streamed)
            [item] = (await play(agent, approve_all(result), streamed=streamed)).interruptions
            assert item.kind == "in_doubt"
            await it_still_works(server)
        assert log(site_kept.shop) == ["flood"] * len(ways)
