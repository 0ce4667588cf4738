"""Stores to be altered: real runs at every stage, and what the world may see of them when nobody has touched anything.

Time, ids and keys are made here, so that one seed is the same store in every process, byte for byte.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from keyturn import Agent, App, Approval, Grant, Inbox, Runner, RunState, ToolContext, function_tool
from keyturn.audit.checker import Head, heads
from keyturn.core.people import Decider
from keyturn.engine.run import new_ids, open_run
from keyturn.engine.run.used_states import UsedStates
from keyturn.journal import generation, outbox_sql
from keyturn.journal.rows import Query, RequestRow
from keyturn.support.keys import VARIABLE
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.base import OutcomeUnknown

from .lifecycle import call, script

SECRET = "a-secret-of-the-trials-and-of-nothing-else"
EPOCH_MS = 1_700_000_000_000
ADA = Decider("ada", roles=("ops",), strength="authenticated")
EVE = Decider("eve", roles=("ops",), strength="authenticated")
OTHER = "other"
_STUCK = 10.0  # seconds in which nothing that is due is taken up


class Deed(NamedTuple):
    """What a tool did: of which run, under which key, and what."""

    run: str
    key: str
    what: str


class World:
    """What tools did, since it was last asked; and the time, which passes only where somebody lets it."""

    deeds: ClassVar[list[Deed]] = []
    now = EPOCH_MS

    @classmethod
    def clock(cls) -> int:
        """The stores' time."""
        return cls.now

    @classmethod
    def taken(cls) -> list[Deed]:
        """What was done since this was asked last."""
        done, cls.deeds = cls.deeds, []
        return done


async def _act(context: ToolContext[Any], n: int) -> str:
    World.deeds.append(Deed(context.run_id, context.idempotency_key, f"{context.tool_name} {n}"))
    return f"{context.tool_name} {n}"


async def _lose(context: ToolContext[Any], n: int) -> str:
    await _act(context, n)
    raise OutcomeUnknown("the line went dead")


def _tools() -> list[Any]:
    return [
        function_tool(_act, name_override="pay", needs_approval=True),
        function_tool(_act, name_override="wire", approval=Approval(quorum=2, role="ops")),
        function_tool(_act, name_override="timed", approval=Approval(expires="1h")),
        function_tool(_act, name_override="brief", approval=Approval(expires="1s")),
        function_tool(_act, name_override="free"),
        function_tool(_lose, name_override="lose", needs_approval=True),
    ]


def _agents() -> dict[str, Agent[Any]]:
    tools = _tools()

    def desk(name: str, *rounds: Any) -> Agent[Any]:
        return Agent(name, model=ScriptedModel(script(*rounds, "done")), tools=list(tools))

    outer = desk("nests", [call_of("inner", {"input": "please"}, "inner_0")], [call("free", 9)])
    outer.tools.append(desk("inner", [call("pay", 70)], [call("free", 71)]).as_tool("inner", "Ask a clerk."))
    made = [
        desk("pays", [call("pay", 11)], [call("free", 12)]),
        desk("wires", [call("wire", 21), call("free", 22)]),
        desk("grants", [call("pay", 31)], [call("pay", 32)], [call("pay", 33)]),
        desk("times", [call("timed", 41)]),
        desk("late", [call("brief", 51)]),
        desk("loses", [call("lose", 61)]),
        outer,
    ]
    return {agent.name: agent for agent in made}


def call_of(name: str, arguments: Any, label: str) -> Any:
    """A call with any arguments."""
    return function_call(name, arguments, call_id=label)


AGENTS = _agents()


@dataclass
class Truth:
    """What is true of a store that nobody touched.

    `alone` are the deeds that come of it without anybody's further word, `all` those that may come of it once people
    have said what they say here, each by its key. `asked` is all that was ever asked, `heads` how far each log had
    come, as somebody kept it elsewhere.
    """

    runs: dict[str, str] = field(default_factory=dict[str, str])
    heads: dict[str, Head] = field(default_factory=dict[str, Head])
    done: dict[str, str] = field(default_factory=dict[str, str])
    alone: dict[str, str] = field(default_factory=dict[str, str])
    all: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[str, str] = field(default_factory=dict[str, str])


class _Time:
    """`time` as the engine asks it: it stands still."""

    @staticmethod
    def time_ns() -> int:
        return World.now * 1_000_000

    @staticmethod
    def clock_gettime(_clock: int) -> float:
        return World.now / 1_000

    @staticmethod
    def monotonic() -> float:
        return World.now / 1_000


class Secrets:
    """`secrets` as the engine and the stores ask it."""

    dice = random.Random(0)

    @classmethod
    def token_hex(cls, size: int) -> str:
        return f"{cls.dice.getrandbits(size * 8):0{size * 2}x}"


def forgotten(state: RunState[Any]) -> RunState[Any]:
    """The state as a process has it that remembers nothing of its runs: here only the store decides."""
    state.live.used = UsedStates()
    return state


@contextmanager
def made_world(home: str) -> Generator[None]:
    """Let the engine take time, ids and keys from here."""
    places: list[tuple[Any, str, Any]] = [
        (open_run, "time", _Time),
        (new_ids, "secrets", Secrets),
        (open_run, "_PROCESS_SECRET", b"trials" * 6),
        (generation, "secrets", Secrets),
        (new_ids, "_this_process", lambda: "made"),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    environment = {name: os.environ.get(name) for name in (VARIABLE, "KEYTURN_HOME")}
    os.environ |= {VARIABLE: SECRET, "KEYTURN_HOME": home}
    for owner, name, value in places:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


# What is in a store -------------------------------------------------------------------------------------------------


class Writing:
    """Fills a store with runs, one at each stage."""

    def __init__(self, store: Any) -> None:
        self.store, self.inbox = store, Inbox(store, AGENTS)
        self.runs: dict[str, str] = {}

    async def run(self, stage: str, agent: str) -> RequestRow | None:
        """Begin a run, as far as it comes by itself; what waits of it first."""
        World.now += 1
        begun = forgotten(RunState(None, "go", AGENTS[agent]))
        result = await Runner.run(AGENTS[agent], begun, journal=self.store)
        self.runs[stage] = result.run_id
        return next(iter(await self.store.requests(Query(run=result.run_id))), None)

    async def goes_on(self, stage: str, agent: str) -> None:
        """Take a run up."""
        state = forgotten(await RunState.load(self.store, self.runs[stage], AGENTS[agent]))
        await Runner.run(AGENTS[agent], state, journal=self.store)

    async def fill(self, dice: random.Random) -> None:
        """Every stage, in an order of its own."""
        stages: list[Callable[[], Any]] = [
            self._waiting,
            self._decided,
            self._granted,
            self._ended,
            self._nested,
        ]
        dice.shuffle(stages)
        for stage in stages:
            await stage()
        World.now += 5_000  # what was to be said within a second is late

    async def _waiting(self) -> None:
        await self.run("waits", "pays")
        await self.run("times", "times")
        await self.run("late", "late")
        voted = await self.run("voted", "wires")
        await self.inbox.approve(_there(voted), by=ADA)

    async def _decided(self) -> None:
        await self.inbox.approve(_there(await self.run("approved", "pays")), by="ann")
        await self.inbox.approve(_there(await self.run("edited", "pays")), by="ann", edit={"n": 111})
        await self.inbox.reject(_there(await self.run("rejected", "pays")), by="ann", message="no")
        both = _there(await self.run("both", "wires"))
        await self.inbox.approve(both, by=ADA)
        await self.inbox.approve(both, by=EVE)

    async def _granted(self) -> None:
        first = _there(await self.run("granted", "grants"))
        await self.inbox.approve(first, by="ann", grant=Grant(where={"n": {"le": 32}}, uses=2))
        revoked = _there(await self.run("revoked", "grants"))
        await self.inbox.approve(revoked, by="ann", grant=Grant(uses=1))
        await self.goes_on("revoked", "grants")
        for grant in await self.store.grants(Query(run=self.runs["revoked"])):
            await self.inbox.revoke(grant.run, grant.id, by="ann")

    async def _ended(self) -> None:
        await self.inbox.approve(_there(await self.run("done", "pays")), by="ann")
        await self.goes_on("done", "pays")
        await self.run("cancelled", "pays")
        await self.inbox.cancel(self.runs["cancelled"], by="ann")
        await self.inbox.approve(_there(await self.run("doubt", "loses")), by="ann")
        await self.goes_on("doubt", "loses")

    async def _nested(self) -> None:
        await self.run("nested", "nests")
        await self.inbox.approve(_there(await self.run("nested approved", "nests")), by="ann")


def _there(row: RequestRow | None) -> RequestRow:
    assert row is not None
    return row


async def filled(store: Any, dice: random.Random) -> Truth:
    """Fill a store, and its other tenant with a little; what is true of it so far."""
    truth = Truth()
    World.taken()
    writing = Writing(store)
    await writing.fill(dice)
    other = Writing(store.of(OTHER))
    await other.run("waits", "pays")
    await other.inbox.approve(_there(await other.run("approved", "pays")), by="ann")
    truth.done = {deed.key: deed.what for deed in World.taken()}
    truth.runs, truth.heads = writing.runs, await heads(store)
    truth.asked = {row.id: f"{row.tool} {row.params['n']}" for row in await store.requests()}
    await store.write(_notices)
    return truth


def _notices(db: Any) -> None:
    """Have something to be told: no part of the engine does yet."""
    for number in range(3):
        db.tell(outbox_sql.TELL, "default", f"run {number}", "request.opened", '{"request":"5e1f"}')


# What people and workers do with it ---------------------------------------------------------------------------------


async def drive(store: Any, way: str, runs: list[str]) -> list[BaseException]:
    """Take up what is due of these runs, in one of three ways; what was refused."""
    if way == "worker":
        return await _worked(store)
    refused: list[BaseException] = []
    for run in [run for run in await store.due() if run in runs]:
        try:
            await _resumed(store, run, way)
        except Exception as error:
            refused.append(error)
    return refused


async def _resumed(store: Any, run: str, way: str) -> None:
    app = App(list(AGENTS.values()), store, worker=False)
    state = forgotten(await app.state(run))
    agent = AGENTS[state.live.graph.root.name]
    if way == "streamed":
        stream = Runner.run_streamed(agent, state, journal=store)
        async for _event in stream.stream_events():
            pass
        return
    await Runner.run(agent, state, journal=store)


async def _worked(store: Any) -> list[BaseException]:
    """Let a worker do all that is due, or as far as the store lets it: an altered index may hide what is due."""
    app = App(list(AGENTS.values()), store, worker=False)
    working, moved = asyncio.ensure_future(app.work()), (time.monotonic(), list[str]())
    try:
        quiet = 0
        while quiet < 3 and not working.done() and time.monotonic() - moved[0] < _STUCK:
            await asyncio.sleep(0.002)
            due = await store.due() if app.trouble is None else []
            quiet = 0 if app.busy or due else quiet + 1
            moved = (time.monotonic(), due) if app.busy or due != moved[1] else moved
    finally:
        await app.stop()
        done = await asyncio.gather(working, return_exceptions=True)
    return [error for error in done if isinstance(error, BaseException)]


async def decide(store: Any, rows: list[RequestRow]) -> list[BaseException]:
    """Say yes to all that is shown, and of what is in doubt that it ran; what was refused."""
    inbox, refused = Inbox(store, AGENTS), list[BaseException]()
    for row in rows:
        try:
            if row.kind == "in_doubt":
                await inbox.resolve(row, "ran", "it ran", by=EVE)
            elif row.kind == "external":
                await inbox.answer(row, "yes", by=EVE)
            else:
                await inbox.approve(row, by=EVE)
        except Exception as error:
            refused.append(error)
    return refused


async def control(store: Any, truth: Truth) -> None:
    """Play a store that nobody touched to its end, and write down what the world saw."""
    everything = list(truth.runs.values())
    World.taken()
    await drive(store, "plain", everything)
    truth.alone = {deed.key: deed.what for deed in World.taken()}
    for _ in range(4):
        await decide(store, list(await store.requests(Query(state="open"))))
        await drive(store, "plain", everything)
    truth.all = truth.alone | {deed.key: deed.what for deed in World.taken()}
    assert len(truth.alone) >= 6
    assert len(truth.all) >= 15
    assert not truth.all.keys() & truth.done.keys(), "a key was used twice"
