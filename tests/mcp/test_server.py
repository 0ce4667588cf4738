"""The life of a server object: connected from anywhere, cached or listed, cancelled, and never used unopened."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import InputRequiredResult

from keyturn import (
    Agent,
    MCPServerError,
    MCPServerSse,
    MCPServerStdio,
    MCPServerStreamableHttp,
    Runner,
    UserError,
    create_static_tool_filter,
)
from keyturn.mcp.calls import Lost
from tests.mcp.conftest import Inside, calling
from tests.playing import play
from tests.table import each
from tests.waiting import until

shop = MCPServer("shop", log_level="CRITICAL")
waiting: list[asyncio.Event] = []


@shop.tool()
async def say(word: str) -> str:
    """Says a word."""
    return f"said {word}"


@shop.tool()
async def wait() -> str:
    """Waits for ever."""
    try:
        waiting.append(asyncio.Event())
        await waiting[-1].wait()
    except asyncio.CancelledError:
        waiting[-1].set()
        raise
    return "never"


class Counting(Inside):
    lists = 0

    async def _list(self, on: Any) -> Any:
        self.lists += 1
        return await super()._list(on)


async def test_it_must_be_connected_and_says_so() -> None:
    server = Inside(shop)
    for use in (server.list_tools(), server.call_tool("say", {"word": "a"}), play(calling(server, calls=("say", {})))):
        with pytest.raises(MCPServerError, match=r"is not connected: use `async with server:`, or call connect\(\)"):
            await use
    await server.cleanup()
    async with server:
        assert (await server.call_tool("say", {"word": "a"})).content[0].text == "said a"
    with pytest.raises(MCPServerError, match="not connected"):
        await server.list_tools()


async def test_tasks_may_connect_and_clean_up_apart() -> None:
    server = Inside(shop)
    await asyncio.create_task(server.connect())
    await asyncio.create_task(server.connect())
    calls = [asyncio.create_task(server.call_tool("say", {"word": str(n)})) for n in range(20)]
    assert [result.content[0].text for result in await asyncio.gather(*calls)] == [f"said {n}" for n in range(20)]
    await asyncio.create_task(server.cleanup())
    await asyncio.create_task(server.cleanup())


def test_it_outlives_the_loop_that_connected_it() -> None:
    server = Inside(shop, require_approval="always")
    asyncio.run(server.connect())
    agent = calling(server, calls=("say", {"word": "a"}))
    result = Runner.run_sync(agent, "go")
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert Runner.run_sync(agent, state).final_output == "said a"
    asyncio.run(server.cleanup())


async def test_run_sync_works_while_the_loop_that_connected_it_is_blocked() -> None:
    async with Inside(shop) as server:
        assert Runner.run_sync(calling(server, calls=("say", {"word": "a"})), "go").final_output == "said a"


async def test_threads_share_it() -> None:
    said: list[str] = []
    async with Inside(shop) as server:
        agents = [calling(server, calls=("say", {"word": str(n)})) for n in range(4)]
        threads = [
            threading.Thread(target=lambda agent=agent: said.append(Runner.run_sync(agent, "go").final_output))
            for agent in agents
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    assert sorted(said) == [f"said {n}" for n in range(4)]


async def test_the_listing_is_kept_where_that_is_wanted() -> None:
    for cached, expected in ((False, 4), (True, 2)):
        async with Counting(shop, cache_tools_list=cached) as server:
            for _ in range(3):
                await server.list_tools()
            server.invalidate_tools_cache()
            await server.tools_for(None, None)
            assert server.lists == expected


@pytest.mark.parametrize("form", ["sync", "async", "broken"])
async def test_a_server_says_that_its_listing_changed(form: str) -> None:
    changing = MCPServer("shop", log_level="CRITICAL")

    @changing.tool()
    async def change(ctx: Context[Any, Any]) -> str:
        await ctx.session.send_tool_list_changed()
        return "changed"

    heard: list[str] = []

    async def later(message: Any) -> None:
        heard.append(message.method)

    def at_once(message: Any) -> None:
        heard.append(message.method)
        if form == "broken":
            raise LookupError

    handler = later if form == "async" else at_once
    async with Counting(changing, cache_tools_list=True, mode="legacy", message_handler=handler) as server:
        await server.list_tools()
        await server.call_tool("change", {})
        await until(lambda: heard)
        await server.list_tools()
        assert (heard, server.lists) == (["notifications/tools/list_changed"], 2)
        assert (await server.call_tool("change", {})).content[0].text == "changed", "whatever the handler did"


async def test_a_filter_hides_tools_of_an_agent() -> None:
    async with Inside(shop, tool_filter=create_static_tool_filter(blocked_tool_names=["wait"])) as server:
        assert [tool.name for tool in await server.list_tools()] == ["say"]
        agent: Agent[Any] = calling(server, calls=("wait", {}))
        assert [tool.name for tool in await agent.get_all_tools(None)] == ["say"]  # type: ignore[arg-type]  # no filter looks at it

    async with Inside(shop, tool_filter=lambda context, tool: context.agent.name == "desk") as server:
        assert len(await server.tools_for(None, agent)) == 2


async def test_a_slip_in_a_name_stops_the_run() -> None:
    async with Inside(shop, require_approval={"always": {"tool_names": ["sayy"]}}) as server:
        with pytest.raises(UserError, match="names the tool 'sayy'"):
            await play(calling(server, calls=("say", {"word": "a"})))


async def test_a_cancelled_run_cancels_the_call() -> None:
    waiting.clear()
    async with Inside(shop) as server:
        task = asyncio.create_task(play(calling(server, calls=("wait", {}))))
        await until(lambda: waiting)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(waiting[0].is_set)


async def test_a_call_that_takes_too_long_is_in_doubt_and_cancelled() -> None:
    waiting.clear()
    async with Inside(shop, seconds=0.3) as server:
        result = await play(calling(server, calls=("wait", {})))
        [item] = result.interruptions
        assert (item.kind, item.reason) == ("in_doubt", "MCP server 'shop': it did not answer within 0.3 s")
        await until(waiting[0].is_set)
        with pytest.raises(MCPServerError) as raised:
            await server.call_tool("wait", {})
        assert raised.value.may_have_acted


async def test_cleanup_ends_what_stands_open() -> None:
    waiting.clear()
    server = Inside(shop)
    await server.connect()
    task = asyncio.create_task(play(calling(server, calls=("wait", {}))))
    await until(lambda: waiting)
    await server.cleanup()
    [item] = (await task).interruptions
    assert item.kind == "in_doubt"


class Losing(Inside):
    """A server whose first answers get lost."""

    lost = 1
    sent = 0

    async def _call(self, *args: Any) -> InputRequiredResult:
        self.sent += 1
        result = await super()._call(*args)
        if self.sent <= self.lost:
            raise Lost("the line broke")
        return result


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_lost_call_is_sent_again_only_on_a_trusted_word(trusted: bool) -> None:
    calm = MCPServer("calm")

    @calm.tool(annotations={"idempotentHint": True})  # type: ignore[arg-type]  # the dict is validated
    async def put() -> str:
        return "put"

    options: dict[str, Any] = {
        "trust_annotations": trusted,
        "max_retry_attempts": 1,
        "retry_backoff_seconds_base": 0.01,
    }
    async with Losing(calm, **options) as server:
        result = await play(calling(server, calls=("put", {})))
        assert server.sent == (2 if trusted else 1)
        assert [item.kind for item in result.interruptions] == ([] if trusted else ["in_doubt"])
    async with Losing(calm, **options) as server:
        server.lost = 9
        result = await play(calling(server, calls=("put", {})))
        assert server.sent == (2 if trusted else 1)
        if trusted:
            assert (
                result.final_output
                == "The tool returned no result. MCP server 'shop': its answer was lost: the line broke"
            )


@each(
    ("member", "params", "says"),
    [
        (MCPServerStdio, {}, "must name what to start"),
        (MCPServerStdio, {"command": "x", "environment": {}}, "have no 'environment'"),
        (MCPServerStdio, None, "must name what to start"),
        (MCPServerStdio, {"command": "x", "args": "desk.py"}, "args .* must be a list of strings, not 'desk.py'"),
        (MCPServerStdio, {"command": "x", "args": ["--port", 3]}, "args .* must be a list of strings"),
        (MCPServerStdio, {"command": "x", "env": {"PORT": 3}}, "env .* must be a mapping of strings to strings"),
        (MCPServerStdio, {"command": "x", "env": ["KEY"]}, "env .* must be a mapping of strings to strings"),
        (MCPServerSse, {"url": "ftp://x"}, "must name its address"),
        (MCPServerStreamableHttp, {"url": "http://x", "header": {}}, "have no 'header'"),
    ],
)
def test_params_are_checked_when_they_are_given(member: Any, params: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        member(params)


@each(
    ("option", "value"),
    [
        ("client_session_timeout_seconds", 0),
        ("max_retry_attempts", -1),
        ("mode", "modern"),
        ("elicitation_callback", "yes"),
        ("tool_filter", {"allowed": []}),
        ("name", ""),
    ],
)
def test_options_are_checked_when_they_are_given(option: str, value: Any) -> None:
    with pytest.raises(UserError):
        MCPServerStdio({"command": "x"}, **{option: value})


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="no option 'requires_approval'"):
        MCPServerStdio({"command": "x"}, requires_approval="always")  # type: ignore[call-arg]  # that is the slip


def test_a_name_shows_no_password() -> None:
    server = MCPServerStreamableHttp({"url": "https://ann:hunter2@example.com/mcp?key=hunter2"})
    assert server.name == "streamable_http: https://example.com/mcp"
