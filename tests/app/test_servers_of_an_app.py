"""An app owns the MCP servers of its agents: connected when first needed, shared, kept alive, closed with it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    MCPServerError,
    MCPServerStdio,
    MemoryJournal,
    Runner,
    RunState,
    ToolSourceDown,
    UserError,
    function_tool,
    handoff,
)
from keyturn.engine.driving import lease
from keyturn.engine.run.log_cache import forget
from keyturn.mcp import pipes
from keyturn.mcp.loop_thread import on_mcp_loop
from keyturn.models.scripted.model import ScriptedModel, last_user_text, tool_outputs
from tests import forked
from tests.mcp.conftest import SERVERS, Inside, Program, log
from tests.mcp.test_streamable_http import server_at
from tests.playing import call, interruptions
from tests.waiting import until, until_status


@pytest.fixture(autouse=True)
def own_world(own_key: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers that end quickly, waits that are short, and at the end no process of a server."""
    monkeypatch.setattr(pipes, "STOP_SECONDS", 0.2)
    monkeypatch.setattr(lease, "SOURCE_MS", 30)
    yield
    assert not pipes._GROUPS, "a server's process was left behind"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "log").touch()
    return tmp_path


@pytest.fixture
def program(shop: Path) -> Iterator[Program]:
    with Program("streamable-http", shop) as running:
        yield running


def stdio(shop: Path, name: str = "shop", **options: Any) -> MCPServerStdio:
    program, *words = forked.launcher(str(SERVERS / "shop.py"), "stdio")
    command = {"command": program, "args": words, "env": {"SHOP": str(shop)}}
    return MCPServerStdio(command, name=name, client_session_timeout_seconds=20, **options)


def desk(*servers: Any, calls: Any = None, name: str = "desk", **settings: Any) -> Agent[Any]:
    """An agent that pays what its user says, and tells what it read."""

    def reply(items: Any) -> Any:
        made = calls or [call("pay", "c1", to=last_user_text(items), amount=5)]
        read = [output for label, output in tool_outputs(items).items() if label in {one["call_id"] for one in made}]
        return made if not read else f"read {' | '.join(map(str, read))}"

    return Agent(name, model=ScriptedModel(reply), mcp_servers=list(servers), **settings)


def pid(server: Any) -> int:
    """The process that a server object has started."""
    [found] = pipes._GROUPS
    return found


async def connected(server: Any) -> bool:
    async def look() -> bool:
        return server._connection is not None and server._connection.alive

    return await on_mcp_loop(look())


async def lost(server: Any) -> bool:
    return not await connected(server)


class Counting(Inside):
    """A server in this process that counts how often it was connected, and cannot be while `down`."""

    opened = 0
    down = False
    done: list[str]

    def transport(self) -> Any:
        self.opened += 1
        if self.down:
            raise ConnectionRefusedError
        return super().transport()


def inside(**options: Any) -> Counting:
    from mcp.server import MCPServer

    made = MCPServer("shop", log_level="CRITICAL")
    done: list[str] = []

    @made.tool()
    async def pay(to: str, amount: int) -> str:
        """Pays somebody."""
        done.append(f"{to} {amount}")
        return f"paid {amount} to {to}"

    server = Counting(made, **options)
    server.done = done
    return server


# ---------------------------------------------------------------------------------------------------- it is the app's


@pytest.mark.parametrize("kind", ["stdio", "streamable HTTP"])
async def test_a_server_is_connected_when_it_is_needed_and_closed_with_the_app(
    kind: str, shop: Path, request: Any
) -> None:
    server = stdio(shop) if kind == "stdio" else server_at(request.getfixturevalue("program").url)
    async with App([desk(server)], MemoryJournal()) as app:
        assert not await connected(server)
        runs = [await app.start("desk", name) for name in ("ada", "bob")]
        assert [(await run.result(30)).final_output for run in runs] == ["read paid 5 to ada", "read paid 5 to bob"]
        assert await connected(server)
    assert not await connected(server)
    with pytest.raises(MCPServerError, match=r"not connected: .* or run the agent in an App"):
        await server.list_tools()


async def test_runs_that_need_it_at_once_connect_it_once() -> None:
    server = inside()
    async with App([desk(server)], MemoryJournal()) as app:
        runs = [await app.start("desk", str(n)) for n in range(20)]
        for run in runs:
            await run.result(30)
        assert (server.opened, len(server.done)) == (1, 20)
    assert not await connected(server)


@pytest.mark.parametrize("way", ["a handoff", "a handoff that only code knows", "an agent as a tool", "both"])
async def test_servers_of_agents_that_are_reached_are_the_apps(way: str) -> None:
    server = inside()
    clerk = desk(server, name="clerk")
    tools = [clerk.as_tool("ask_clerk", "Asks the clerk.")]
    if way == "an agent as a tool":
        front = desk(name="front", calls=[call("ask_clerk", "f1", input="ada")], tools=tools)
    elif way == "both":
        middle = Agent("middle", model=ScriptedModel([[call("ask_clerk", "m1", input="ada")], "asked"]), tools=tools)
        front = Agent("front", model=ScriptedModel([[call("transfer_to_middle", "f1")]]), handoffs=[middle])
    else:
        over = [clerk] if way == "a handoff" else [_late(clerk)]
        front = Agent("front", model=ScriptedModel([[call("transfer_to_clerk", "f1")]]), handoffs=over)
    async with App([front], MemoryJournal()) as app:
        assert (await (await app.start("front", "ada")).wait(30)).status == "finished"
        assert len(server.done) == 1
    assert not await connected(server)


def _late(agent: Agent[Any]) -> Any:
    made = handoff(agent)
    go = made.on_invoke_handoff
    made.on_invoke_handoff = lambda context, text: go(context, text)  # nobody sees the agent before the handoff
    return made


@pytest.mark.trial
async def test_a_process_that_died_is_started_again(shop: Path) -> None:
    server = stdio(shop)
    async with App([desk(server)], MemoryJournal()) as app:
        await (await app.start("desk", "ada")).result(30)
        os.kill(pid(server), signal.SIGKILL)
        await until(lambda: lost(server))  # a call on a connection that is about to break would be in doubt
        assert (await (await app.start("desk", "bob")).result(30)).final_output == "read paid 5 to bob"
    assert log(shop) == ["pay ada 5", "pay bob 5"]


async def test_a_connect_that_fails_is_retried_at_the_next_need() -> None:
    server = inside()
    server.down = True
    async with App([desk(server)], MemoryJournal()) as app:
        run = await app.start("desk", "ada")
        await until(lambda: server.opened > 2)
        assert (await run.get()).status == "running"
        server.down = False
        assert (await run.result(30)).final_output == "read paid 5 to ada"
    assert server.done == ["ada 5"]


@pytest.mark.trial
async def test_a_cancelled_run_leaves_the_shared_server_open(shop: Path) -> None:
    server = stdio(shop)
    slow = desk(server, name="slow", calls=[call("slow", "s1")])
    async with App([desk(server), slow], MemoryJournal()) as app:
        first = await app.start("slow", "x")
        await until(lambda: "slow began" in log(shop))
        process = pid(server)
        await app.cancel(first.id)
        await until(lambda: "slow was cancelled" in log(shop))
        assert (await (await app.start("desk", "bob")).result(30)).final_output == "read paid 5 to bob"
        assert pid(server) == process


async def test_an_app_that_is_closed_within_a_call_leaves_it_in_doubt(shop: Path) -> None:
    server = stdio(shop)
    store = MemoryJournal()
    async with App([desk(server, calls=[call("slow", "s1")])], store, grace=0.05) as app:
        run = await app.start("desk", "x")
        await until(lambda: "slow began" in log(shop))
    assert not await connected(server)
    [request] = await app.inbox.list()
    assert (request.kind, request.run) == ("in_doubt", run.id)


async def test_what_the_user_connected_is_left_alone(shop: Path) -> None:
    server = stdio(shop)
    async with server:
        process = pid(server)
        async with App([desk(server)], MemoryJournal()) as app:
            await (await app.start("desk", "ada")).result(30)
        assert (pid(server), await connected(server)) == (process, True)
        assert await server.list_tools()


async def test_the_last_of_two_apps_closes_it() -> None:
    server = inside()
    async with App([desk(server)], MemoryJournal()) as one:
        async with App([desk(server)], MemoryJournal()) as other:
            for app in (one, other):
                await (await app.start("desk", "ada")).result(30)
        assert await connected(server)
        async with server:
            pass
        assert await connected(server), "its user leaves, the app goes on"
        await (await one.start("desk", "bob")).result(30)
    assert (server.opened, await connected(server)) == (1, False)


async def test_an_app_that_is_started_again_has_its_servers_again() -> None:
    server = inside()
    app = App([desk(server)], MemoryJournal())
    for name in ("ada", "bob"):
        await (await app.start("desk", name)).result(30)
        await app.stop()
        assert not await connected(server)
    assert (server.opened, server.done) == (2, ["ada 5", "bob 5"])


async def test_work_owns_them_as_well() -> None:
    """`keyturn worker` is `work` and `stop`."""
    server = inside()
    store = MemoryJournal()
    app = App([desk(server)], store, worker=False)
    run = await app.start("desk", "ada")
    working = asyncio.ensure_future(app.work())
    await until_status(app, run.id, "finished")
    assert await connected(server)
    await app.stop()
    await working
    assert not await connected(server)


@pytest.mark.trial
async def test_a_run_taken_in_hand_has_the_apps_servers() -> None:
    server = inside()
    agent = desk(server)
    async with App([agent], MemoryJournal(), worker=False) as app:
        run = await app.start("desk", "ada")
        assert (await Runner.run(agent, await app.state(run.id), context={"a": 1})).final_output == "read paid 5 to ada"
        assert await connected(server)
    assert not await connected(server)


# ------------------------------------------------------------------------------------------- a server that is down


async def waiting_for_pay(server: Any, **settings: Any) -> tuple[Any, Agent[Any], str]:
    """A run that waits for its payment; then the app is closed and nothing of the run is remembered."""
    store, agent = MemoryJournal(), desk(server, **settings)
    async with App([agent], store) as app:
        run = await app.start("desk", "ada")
        assert (await run.wait(30)).status == "waiting"
    forget()
    return store, agent, run.id


@pytest.mark.parametrize("verdict", ["approve", "edit", "reject", "answer"])
async def test_looking_deciding_and_editing_need_no_server(verdict: str) -> None:
    server = inside(require_approval="always")
    store, agent, run = await waiting_for_pay(server)
    server.down, server.opened = True, 0
    app = App([agent], store, worker=False)
    [request] = await app.inbox.list()
    assert (await app.inbox.get(request.id)).tool == "pay"
    [item] = (await app.result(run)).interruptions
    assert (item.params, (await app.state(run)).get_interruptions()[0].digest) == (
        {"to": "ada", "amount": 5},
        request.digest,
    )
    if verdict == "edit":
        with pytest.raises(UserError, match="do not fit"):
            await app.inbox.approve(request, by="ann", edit={"to": "bob", "amount": "much"})
        await app.inbox.approve(request, by="ann", edit={"to": "bob", "amount": 3})
    elif verdict == "answer":
        await app.inbox.answer(request, "paid by hand", by="ann")
    else:
        await getattr(app.inbox, verdict)(request, by="ann")
    assert (server.opened, server.done) == (0, [])
    wanted = {
        "approve": "read paid 5 to ada",
        "edit": "paid 3 to bob",
        "reject": "read Tool execution was not approved.",
        "answer": "read paid by hand",
    }[verdict]
    server.down = False
    async with App([agent], store) as app:
        assert wanted in (await app.result(run, 30)).final_output
    forget()
    server.down = True
    assert wanted in (await App([agent], store, worker=False).result(run)).final_output, "and so is what it came to"


async def test_a_saved_state_is_loaded_and_edited_without_its_server(streamed: bool) -> None:
    from tests.playing import play

    server = inside(require_approval="always")
    agent = desk(server)
    async with server:
        text = (await play(agent, "ada", streamed)).to_state().to_string()
    forget()
    state = await RunState.from_string(agent, text)
    [item] = interruptions(state)
    state.approve(item, edit={"to": "bob", "amount": 3})
    with pytest.raises(MCPServerError, match="not connected"):
        await play(agent, state, streamed)
    async with server:
        await play(agent, await RunState.from_string(agent, state.to_string()), streamed)
    assert server.done == ["bob 3"]


async def test_an_approved_call_waits_for_its_server_and_keeps_its_approval() -> None:
    server = inside(require_approval="always")
    store, agent, run = await waiting_for_pay(server)
    server.down, server.opened = True, 0
    async with App([agent], store) as app:
        [request] = await app.inbox.list()
        await app.inbox.approve(request, by="ann")
        await until(lambda: server.opened > 2)
        assert (await app.get(run)).status == "running"
        assert not await app.inbox.list(), "nobody is asked again"
        server.down = False
        assert (await app.result(run, 30)).final_output == "read paid 5 to ada"
    assert server.done == ["ada 5"]


async def test_a_rejected_call_gets_its_result_while_the_server_is_down() -> None:
    server = inside(require_approval="always")
    store, agent, run = await waiting_for_pay(server)
    server.down = True
    async with App([agent], store) as app:
        [request] = await app.inbox.list()
        await app.inbox.reject(request, by="ann", message="not today")

        async def settled() -> bool:
            return (await app.state(run)).live.run.frames["r"].phase == "model"

        await until(settled)
        server.down = False
        assert (await app.result(run, 30)).final_output == "read not today"
    assert server.done == []


async def test_what_needs_no_server_goes_on_while_another_call_waits_for_it() -> None:
    from keyturn import function_tool

    done: list[str] = []

    @function_tool(needs_approval=True)
    def note(text: str) -> str:
        """Note."""
        done.append(text)
        return f"noted {text}"

    server = inside(require_approval="always")
    both = [call("pay", "c1", to="ada", amount=5), call("note", "c2", text="hi")]
    store, agent, run = await waiting_for_pay(server, calls=both, tools=[note])
    server.down = True
    async with App([agent], store) as app:
        for request in await app.inbox.list():
            await app.inbox.approve(request, by="ann")
        await until(lambda: done == ["hi"])
        assert server.done == []
        server.down = False
        assert (await app.result(run, 30)).final_output == "read paid 5 to ada | noted hi"
    assert (server.done, done) == (["ada 5"], ["hi"])


async def test_a_nested_agent_waits_for_its_server_too() -> None:
    """It is no error result of its tool: what was approved inside would go with it."""
    server = inside(require_approval="always")
    clerk = desk(server, name="clerk")
    tools = [clerk.as_tool("ask_clerk", "Asks the clerk.")]
    front = desk(name="front", calls=[call("ask_clerk", "f1", input="ada")], tools=tools)
    store = MemoryJournal()
    server.down = True
    async with App([front], store) as app:
        run = await app.start("front", "ada")
        await until(lambda: server.opened > 2)
        server.down = False
        await run.wait(30)
    server.down, server.opened = True, 0
    forget()
    async with App([front], store) as app:
        [request] = await app.inbox.list()
        await app.inbox.approve(request, by="ann")
        await until(lambda: server.opened > 2)
        server.down = False
        assert (await app.result(run.id, 30)).final_output == "read read paid 5 to ada"


@pytest.mark.trial
async def test_a_server_that_goes_down_between_approval_and_start_takes_nothing_back(program: Program) -> None:
    """The drive is hot: it knows the tool, and looks at it once more before it starts."""
    server = server_at(program.url, require_approval="always")
    server.client_session_timeout_seconds = server.connect_timeout_seconds = 1
    both = [call("pay", "c1", to="ada", amount=5), call("slow", "c2", seconds=0)]
    async with App([desk(server, calls=both)], MemoryJournal()) as app:
        run = await app.start("desk", "ada")
        await run.wait(30)
        program.kill()
        for request in await app.inbox.list():
            await app.inbox.approve(request, by="ann")
        await until(lambda: app.busy == 0)
        assert [row.kind for row in await app.inbox.list()] == []
        program.start()
        assert (await run.result(30)).final_output == "read paid 5 to ada | done at last"
    assert log(program.shop).count("pay ada 5") == 1


async def test_a_tool_that_changed_while_its_server_was_down_is_asked_anew() -> None:
    """What was recorded is good for looking and never for running."""
    server = inside(require_approval="always")
    store, agent, run = await waiting_for_pay(server)
    server.down = True
    async with App([agent], store) as app:
        [request] = await app.inbox.list()
        await app.inbox.approve(request, by="ann")
        await until(lambda: app.busy == 0)
        server.server = _another_shop(server.done)
        server.down = False
        await until_status(app, run, "waiting")
        [asked] = await app.inbox.list()
        assert asked.digest != request.digest
    assert server.done == []


def _another_shop(done: list[str]) -> Any:
    from mcp.server import MCPServer

    made = MCPServer("shop", log_level="CRITICAL")

    @made.tool()
    async def pay(to: str, amount: int) -> str:
        """Pays somebody twice."""
        done.append(f"twice {to} {amount}")
        return "paid twice"

    return made


async def test_a_call_that_nobody_was_asked_about_tells_the_model() -> None:
    class Dying(Counting):
        async def _call(self, *arguments: Any) -> Any:
            self.down = True
            await self._close()
            try:
                return await super()._call(*arguments)
            finally:
                self.down = False

    server = inside()
    server.__class__ = Dying
    async with App([desk(server)], MemoryJournal()) as app:
        said = (await (await app.start("desk", "ada")).result(30)).final_output
    assert said == "read The tool returned no result. MCP server 'shop': nothing was sent: ConnectionRefusedError"


async def test_one_attempt_to_connect_is_shared_by_all_who_need_it() -> None:
    """A server that does not answer keeps each for the same while, and not one after the other."""

    class Silent(Counting):
        def transport(self) -> Any:
            self.opened += 1
            return _silent()

    server = inside(connect_timeout_seconds=0.5)
    server.__class__ = Silent
    await server.hold(server)
    tries = [asyncio.ensure_future(server.list_tools()) for _ in range(10)]
    await until(lambda: server.opened)
    tries.pop().cancel()
    assert all(isinstance(each, MCPServerError) for each in await asyncio.gather(*tries, return_exceptions=True))
    assert server.opened <= 2
    await server.release(server)


def _silent() -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def never() -> Any:
        await asyncio.Event().wait()
        yield

    return never()


async def test_a_source_of_another_kind_is_waited_for_as_a_server_is() -> None:
    """The engine knows that tools come from somewhere which may be down, and not that there are MCP servers."""

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        return f"paid {to}"

    class Shelf:
        down = True
        asked = 0

        async def tools_for(self, _context: Any, _agent: Any) -> list[Any]:
            self.asked += 1
            if self.down:
                raise ToolSourceDown("the shelf is closed")
            return [pay]

    shelf = Shelf()
    agent = desk(shelf, calls=[call("pay", "c1", to="ann")])
    with pytest.raises(ToolSourceDown, match="closed"):
        await Runner.run(agent, "ann")
    async with App([agent], MemoryJournal()) as app:
        run = await app.start("desk", "ann")
        await until(lambda: shelf.asked > 2)
        assert (await app.get(run.id)).status == "running"
        shelf.down = False
        await until_status(app, run.id, "waiting")
        [request] = await app.inbox.list()
        await app.inbox.approve(request, by="ann")
        assert (await run.result(timeout=20)).final_output == "read paid ann"
