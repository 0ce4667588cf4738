"""The standard shapes of work whose cost is counted: each prepares, yields where the count begins, and at its end.

Only public names are used, so that an older revision is counted by the same code; a shape of what it did not have is
left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from .script import PROMPT, Script, require
from .subjects import SUBJECTS

TURNS = 20
ROUNDS = 10
Work = AsyncGenerator[None, None]


@dataclass
class Place:
    """Where a shape keeps its runs: new files of a folder, and new databases of a server."""

    folder: Path
    database: Callable[[], str]
    made: count[int] = field(default_factory=count)

    def sqlite(self) -> str:
        """The URL of a new SQLite store."""
        return f"sqlite:///{self.folder}/{next(self.made)}.db"

    def postgres(self) -> str:
        """The URL of a new PostgreSQL database."""
        return self.database()


class Shape(NamedTuple):
    """One row of the counts: what is done, where, and how many of what its title says one pass has."""

    key: str
    title: str
    work: Callable[[Place], Work]
    many: int = 1


def _driver(replies: list[list[str]], url: str | None = None) -> Any:
    driver = SUBJECTS["keyturn"].driver()(Script(replies))
    if url is not None:
        from keyturn.journal import open_journal

        driver.journal = open_journal(url)
    return driver


async def _turns(_: Place) -> Work:
    driver = _driver([["noop"]] * TURNS + [[]])
    yield
    require(driver.pending(await driver.start()) == 0, "the run did not finish")
    yield


def _rounds(many: int, where: Callable[[Place], str | None]) -> Callable[[Place], Work]:
    """Pauses of one run, each saved, loaded, approved and resumed."""

    async def rounds(place: Place) -> Work:
        driver = _driver([["gated"]] * many + [[]], where(place))
        yield
        held = await driver.start()
        for _ in range(many):
            held = await driver.approve(await driver.load(driver.save(held)))
        yield
        require(driver.pending(held) == 0, "the run did not finish")
        if driver.journal is not None:
            await driver.journal.close()

    return rounds


async def _granted(place: Place) -> Work:
    from keyturn import Runner, RunState

    driver = _driver([["gated"]] * (ROUNDS + 1) + [[]], place.sqlite())
    held = await driver.start()
    state = await RunState.load(driver.journal, held.run_id, driver.agent)
    state.approve(state.get_interruptions()[0], always_approve=True)
    yield
    done = await Runner.run(driver.agent, state, max_turns=ROUNDS + 5)
    yield
    require(driver.pending(done) == 0, "a granted call asked")
    await driver.journal.close()


def _app(journal: Any, *, worker: bool = True, **options: Any) -> Any:
    from keyturn import Agent, App, function_tool

    from .subjects.keyturn import Scripted

    script = Script([["gated"], []])
    gated = function_tool(script.tools()[1], **options)
    return App([Agent("bench", model=Scripted(script), tools=[gated])], journal, worker=worker)


async def _waiting(app: Any) -> Any:
    """A run of the app that waits, and its request."""
    run = await app.start("bench", PROMPT)
    await run.wait(60)
    [asked] = await app.inbox.list()
    return run, asked


async def _quorum(place: Place) -> Work:
    from keyturn import Approval
    from keyturn.directory.login import Login

    app = _app(place.sqlite(), approval=Approval(role="lead", quorum=2))
    await app.people.start("root")
    for name in ("ann", "bob"):
        await app.people.add(name, roles=["lead"], by="root")
    async with app:
        _, asked = await _waiting(app)
    yield
    for name in ("ann", "bob"):
        await app.inbox.approve(asked, by=Login(name))
    yield
    require(not await app.inbox.list(), "the request is still open")
    await app.journal.close()


async def _picked_up(place: Place) -> Work:
    app = _app(place.sqlite(), needs_approval=True)
    async with app:
        run, asked = await _waiting(app)
        yield
        await app.inbox.approve(asked, by="ann")
        result = await run.result(60)
        yield
        require(result.final_output is not None, "the run did not finish")
    await app.journal.close()


async def _over_http(place: Place) -> Work:
    import httpx2

    app = _app(place.sqlite(), needs_approval=True)
    await app.people.start("ann")
    token = await app.people.issue_token("ann", ["decide", "read"], by="ann")
    async with app:
        _, asked = await _waiting(app)
    app = _app(app.journal, worker=False, needs_approval=True)
    headers = {"authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(app=app.asgi())
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
        require((await http.get("/v1/me")).status_code == 200, "no answer")
        path = f"/v1/requests/{asked.id}/approve"
        yield
        answer = await http.post(path, json={"digest": asked.digest})
        yield
        require(answer.status_code == 200, answer.text)
    await app.stop()
    await app.journal.close()


async def _nested(_: Place) -> Work:
    from keyturn import Agent, Runner

    from .subjects.keyturn import Scripted

    inner = _driver([["noop"], []]).agent
    outer = Script([["ask"], []])
    tool = inner.as_tool("ask", "Asks the other agent.")
    for reply in outer.replies:
        reply[:] = [call._replace(arguments='{"input": "go"}') for call in reply]
    agent = Agent("outer", model=Scripted(outer), tools=[tool])
    yield
    result = await Runner.run(agent, PROMPT)
    yield
    require(result.final_output is not None and outer.models_called == 2, "the outer run did not finish")


async def _deep(_: Place) -> Work:
    from .subjects.keyturn_deep import Driver
    from .workloads.deep import Writes

    writes = Writes(ROUNDS)
    driver = Driver(writes, {})
    yield
    await driver.start()
    yield
    require(driver.files() == ROUNDS, "a file was not written")


async def _realtime(_: Place) -> Work:
    import keyturn
    from keyturn import realtime

    from .workloads.realtime import _calls, _model

    async def noop(x: int) -> str:
        return "ok"

    agent = realtime.RealtimeAgent(name="bench", instructions="Talk.", tools=[keyturn.function_tool(noop)])
    model = _model(realtime)
    runner = realtime.RealtimeRunner(agent, model=model, config={"tracing_disabled": True})
    async with await runner.run() as session:
        await _calls(realtime, session, model, 2)
        yield
        await _calls(realtime, session, model, ROUNDS)
        yield


SHAPES = (
    Shape("turn", "a turn with one ungated tool", _turns, TURNS),
    Shape("cycle", "pause, save, load, approve, resume", _rounds(1, lambda _: None)),
    Shape("round", "a round of a conversation, as text", _rounds(ROUNDS, lambda _: None), ROUNDS),
    Shape("sqlite-cycle", "a durable cycle on SQLite", _rounds(1, Place.sqlite)),
    Shape("sqlite-round", "a durable round on SQLite", _rounds(ROUNDS, Place.sqlite), ROUNDS),
    Shape("postgres-cycle", "a durable cycle on PostgreSQL", _rounds(1, Place.postgres)),
    Shape("postgres-round", "a durable round on PostgreSQL", _rounds(ROUNDS, Place.postgres), ROUNDS),
    Shape("quorum", "a quorum of two on SQLite", _quorum),
    Shape("granted", "a call under a standing approval on SQLite", _granted, ROUNDS),
    Shape("pick-up", "a decision, and the worker that goes on, on SQLite", _picked_up),
    Shape("http", "a decision over HTTP, on SQLite", _over_http),
    Shape("nested", "a call that another agent answers", _nested),
    Shape("deep", "a file that a deep agent writes", _deep, ROUNDS),
    Shape("realtime", "a call of a realtime session", _realtime, ROUNDS),
)
