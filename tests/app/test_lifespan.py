"""`App(lifespan=...)`: entered once before the first run is moved, left when the app is closed, seen by tools."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from keyturn import Agent, App, MemoryJournal, RunContextWrapper, Runner, ToolContext, UserError, function_tool
from keyturn.models.scripted.model import ScriptedModel, tool_outputs
from tests import forked
from tests.playing import call
from tests.waiting import turns_of_the_loop, until, until_now, until_status


class Pool:
    """What a lifespan opens, and what happened to it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.fails: list[Exception] = []

    @asynccontextmanager
    async def lifespan(self, app: App) -> AsyncGenerator[Pool]:
        assert isinstance(app, App)
        if self.fails:
            raise self.fails.pop()
        self.said.append("opened")
        async with anyio.create_task_group():  # left in another task than the one that entered it, it would raise
            yield self
        self.said.append("closed")


def asker(pool: list[Any] | None = None, **options: Any) -> Agent[Any]:
    """An agent whose tool, instructions and nested agent look at the app's resources."""
    seen: list[Any] = [] if pool is None else pool

    @function_tool(**options)
    def query(context: ToolContext[Any]) -> str:
        """Ask the pool."""
        seen.append(context.resources)
        return "asked"

    def instructions(context: RunContextWrapper[Any], _agent: Any) -> str:
        seen.append(context.resources)
        return "Ask."

    def reply(items: Any) -> Any:
        return "done" if tool_outputs(items) else [call("query", "q1")]

    inner = Agent("inner", instructions, model=ScriptedModel(reply), tools=[query])
    tools = [inner.as_tool("ask", "Asks.")]
    return Agent("desk", model=ScriptedModel([[call("ask", "a1", input="x")], "done"] * 20), tools=tools)


async def test_it_is_entered_before_the_first_run_and_left_at_the_end() -> None:
    pool, seen = Pool(), []
    app = App([asker(seen)], MemoryJournal(), lifespan=pool.lifespan)
    assert pool.said == []
    await asyncio.create_task(_ran(app))
    await asyncio.create_task(_ran(app))
    assert pool.said == ["opened"]
    await asyncio.create_task(app.stop())
    assert pool.said == ["opened", "closed"]
    assert seen
    assert all(each is pool for each in seen)


async def _ran(app: App) -> None:
    assert (await (await app.start("desk", "x")).result(30)).final_output == "done"


async def test_it_sees_the_run_again_after_a_pause() -> None:
    pool, seen = Pool(), []
    async with App([asker(seen, needs_approval=True)], MemoryJournal(), lifespan=pool.lifespan) as app:
        run = await app.start("desk", "x")
        await run.wait(30)
        [request] = await app.inbox.list()
        await app.inbox.approve(request, by="ann")
        await run.result(30)
    assert all(each is pool for each in seen)
    assert len(seen) >= 2


@pytest.mark.parametrize("worker", [True, False])
async def test_it_is_left_after_errors(worker: bool) -> None:
    pool = Pool()
    with pytest.raises(LookupError):
        async with App([asker()], MemoryJournal(), lifespan=pool.lifespan, worker=worker):
            raise LookupError
    assert pool.said == ["opened", "closed"]


async def test_one_that_cannot_be_entered_is_told_to_whoever_starts_and_tried_again() -> None:
    pool = Pool()
    pool.fails = [OSError("no database") for _ in range(2)]
    app = App([asker()], MemoryJournal(), lifespan=pool.lifespan)
    with pytest.raises(OSError, match="no database"):
        await app.start("desk", "x")
    with pytest.raises(OSError, match="no database"):
        async with app:
            pass
    assert await app.runs() == []
    await _ran(app)
    await app.stop()
    assert pool.said == ["opened", "closed"]


async def test_many_starts_at_once_enter_it_once() -> None:
    pool = Pool()
    async with App([asker() for _ in range(1)], MemoryJournal(), lifespan=pool.lifespan) as app:
        first = asyncio.ensure_future(app.start("desk", "x"))
        others = [asyncio.ensure_future(app.start("desk", "x")) for _ in range(5)]
        first.cancel()
        await asyncio.gather(*others)
        assert pool.said == ["opened"]


async def test_who_stops_waiting_does_not_take_it_from_the_others() -> None:
    gate = asyncio.Event()
    said: list[str] = []

    @asynccontextmanager
    async def slow(_app: App) -> AsyncGenerator[str]:
        said.append("entering")
        await gate.wait()
        yield "pool"

    app = App([asker()], MemoryJournal(), lifespan=slow)
    first, second = (asyncio.ensure_future(app.start("desk", "x")) for _ in range(2))
    await turns_of_the_loop(5)
    first.cancel()
    await turns_of_the_loop(5)
    gate.set()
    await (await second).result(30)
    assert said == ["entering"]
    await app.stop()


async def test_one_that_ends_by_itself_is_said_and_entered_again(caplog: Any) -> None:
    said: list[str] = []
    crash = asyncio.Event()

    async def background() -> None:
        await crash.wait()
        raise RuntimeError("the pool broke")

    @asynccontextmanager
    async def breaks(_app: App) -> AsyncGenerator[str]:
        said.append("opened")
        async with anyio.create_task_group() as tasks:
            if len(said) == 1:
                tasks.start_soon(background)
            yield "pool"

    async with App([asker()], MemoryJournal(), lifespan=breaks) as app:
        await _ran(app)
        crash.set()
        await until(lambda: "ended by itself" in caplog.text)
        await _ran(app)
        assert said == ["opened", "opened"]


async def test_an_app_that_leaves_runs_to_others_does_not_need_it() -> None:
    pool = Pool()
    app = App([asker()], MemoryJournal(), lifespan=pool.lifespan, worker=False)
    run = await app.start("desk", "x")
    assert pool.said == []
    working = asyncio.ensure_future(app.work())
    await until_status(app, run.id, "finished")
    assert pool.said == ["opened"]
    await app.stop()
    await working
    assert pool.said == ["opened", "closed"]


async def test_a_worker_that_is_cancelled_leaves_it() -> None:
    pool = Pool()
    app = App([asker()], MemoryJournal(), lifespan=pool.lifespan, worker=False)
    working = asyncio.ensure_future(app.work())
    await until(lambda: pool.said)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert pool.said == ["opened", "closed"]


def test_a_loop_that_ends_leaves_it() -> None:
    """Who forgets to stop the app closes it with the loop; another loop opens it again."""
    pool = Pool()
    app = App([asker()], MemoryJournal(), lifespan=pool.lifespan)
    for _ in range(2):
        asyncio.run(_opened(app))
    assert [said for said in pool.said if said == "opened"] == ["opened", "opened"]


async def _opened(app: App) -> None:
    await app._resources.open()


async def test_what_it_raises_at_the_end_is_raised() -> None:
    @asynccontextmanager
    async def bad(_app: App) -> AsyncGenerator[None]:
        yield
        raise OSError("cannot close")

    app = App([asker()], MemoryJournal(), lifespan=bad)
    await _ran(app)
    with pytest.raises(OSError, match="cannot close"):
        await app.stop()
    await app.stop()


async def test_it_may_start_a_run_itself_and_stop_the_app() -> None:
    """In its own task, which cannot wait for what it is about to yield."""
    handles: list[Any] = []

    @asynccontextmanager
    async def housekeeping(app: App) -> AsyncGenerator[str]:
        handles.append(await app.start("desk", "before"))
        yield "pool"
        await app.stop()

    async with App([asker(seen := [])], MemoryJournal(), lifespan=housekeeping) as app:
        await _ran(app)
        assert (await handles[0].result(30)).final_output == "done"
    assert set(seen) == {"pool"}


async def test_an_app_is_stopped_whose_lifespan_never_comes_to_its_yield() -> None:
    """A pool that cannot reach its database: whoever starts a run gives up, and then the app is stopped."""
    left: list[str] = []

    @asynccontextmanager
    async def hanging(_app: App) -> AsyncGenerator[None]:
        try:
            await asyncio.Event().wait()
            yield
        finally:
            left.append("left")

    app = App([asker()], MemoryJournal(), lifespan=hanging)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(app.start("desk", "x"), 0.05)
    waiting = asyncio.ensure_future(app.start("desk", "x"))
    await turns_of_the_loop()
    async with asyncio.timeout(10):
        await app.stop()
        with pytest.raises(UserError, match="the app was closed before its lifespan was entered"):
            await waiting
    assert left == ["left"]


async def test_a_lifespan_that_starts_a_run_as_it_ends_is_told_so_and_the_app_is_closed() -> None:
    """It would wait for itself to end."""
    told: list[str] = []

    @asynccontextmanager
    async def late(app: App) -> AsyncGenerator[None]:
        yield
        try:
            await app.start("desk", "one more")
        except UserError as error:
            told.append(str(error))

    app = App([asker()], MemoryJournal(), lifespan=late)
    await _ran(app)
    async with asyncio.timeout(10):
        await app.stop()
    assert told == ["the app is being closed: start runs before what its lifespan does at the end"]


async def test_without_an_app_there_are_no_resources() -> None:
    seen: list[Any] = []
    await Runner.run(asker(seen), "x")
    assert set(seen) == {None}


async def test_what_is_no_lifespan_is_refused() -> None:
    with pytest.raises(UserError, match=r"lifespan must be a function of the app .*asynccontextmanager"):
        App([asker()], MemoryJournal(), lifespan="pool")  # type: ignore[arg-type]  # what is refused

    async def plain(_app: App) -> AsyncGenerator[None]:
        yield

    with pytest.raises(UserError, match=r"decorate it with @contextlib\.asynccontextmanager"):
        App([asker()], MemoryJournal(), lifespan=plain)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(UserError, match="NoneType, which is no async context manager"):
        await App([asker()], MemoryJournal(), lifespan=lambda _app: None).start("desk", "x")  # type: ignore[arg-type, return-value]  # what is refused


PROGRAM = '''
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from keyturn import Agent, App, MCPServerStdio, ToolContext, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs

here = Path(__file__).parent

def note(line):
    with (here / "said").open("a") as said:
        said.write(line + "\\n")

@function_tool
def look(context: ToolContext) -> str:
    """Look."""
    note(f"looked at {context.resources}")
    return "looked"

def reply(items):
    made = [function_call("look", {}), function_call("pay", {"to": "ada", "amount": 3})]
    return "done" if tool_outputs(items) else made

@asynccontextmanager
async def lifespan(app):
    note("opened")
    yield "the pool"
    note("closed")

command = {"command": sys.executable, "args": [%r, "stdio"], "env": {"SHOP": str(here)}}
shop = MCPServerStdio(command, name="shop", client_session_timeout_seconds=20)
agents = [Agent("ops", model=ScriptedModel(reply), tools=[look], mcp_servers=[shop])]
app = App(agents, f"sqlite:///{here}/runs.db", lifespan=lifespan)
'''


@pytest.mark.parametrize("twice", [False, True])
def test_keyturn_worker_owns_it_and_the_servers(twice: bool, tmp_path: Path, own_key: None) -> None:
    shop = Path(__file__).parents[1] / "mcp" / "servers" / "shop.py"
    (tmp_path / "program.py").write_text(PROGRAM % str(shop))
    code = "import asyncio, program; program.app.embedded = False; asyncio.run(program.app.start('ops', 'go'))"
    forked.run(["-c", code], cwd=tmp_path, check=True, timeout=50)
    command = ["-m", "keyturn.cli.main", "worker", "program:app"]
    with forked.Program(command, cwd=tmp_path, stderr=forked.PIPE, text=True, children=True) as running:
        until_now(lambda: (tmp_path / "log").exists(), 40)
        for _ in range(1 + twice):
            running.send_signal(signal.SIGTERM)
        assert running.wait(40) == 0
    assert (tmp_path / "said").read_text().splitlines() == ["opened", "looked at the pool", "closed"]
    assert (tmp_path / "log").read_text() == "pay ada 3\n"


async def test_an_app_that_a_request_opened_stays_open_while_others_enter_and_leave_it() -> None:
    pool = Pool()
    app = App([asker()], MemoryJournal(), lifespan=pool.lifespan)
    server = httpx2.ASGITransport(app=app.asgi())
    async with httpx2.AsyncClient(transport=server, base_url="http://localhost") as http:
        await http.get("/healthz")
        async with app:
            pass
        assert (pool.said, app._workers.embedded) == (["opened"], True)
    await app.stop()
    assert (pool.said, app._workers.embedded) == (["opened", "closed"], False)


async def test_an_app_that_was_open_as_a_request_came_is_closed_by_its_own_block() -> None:
    pool = Pool()
    app = App([asker()], MemoryJournal(), lifespan=pool.lifespan)
    server = httpx2.ASGITransport(app=app.asgi())
    async with httpx2.AsyncClient(transport=server, base_url="http://localhost") as http, app:
        await http.get("/healthz")
    assert pool.said == ["opened", "closed"]
