"""The app: agents, a journal and a worker, so that runs are started, found again, and moved when people decide.

A run belongs to its journal and not to the process that started it: every method takes a run's id and works in any
process. While nothing is due nothing of a run is held in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Self, Unpack

from ..agents.agent import Agent, AgentDeclaration
from ..agents.hooks import RunHooks
from ..agents.limits import DEFAULT_MAX_TURNS
from ..agents.settings import RunConfig
from ..asks.service import AskService
from ..audit.service import Audit
from ..channels.service import Channels, ChannelService
from ..core.errors import RunMissing, RunStopped
from ..core.priorities import Priority
from ..directory.people import People
from ..engine.attended import Hosting
from ..engine.entry import play_of
from ..engine.execution import Execution
from ..engine.mover import Mover
from ..engine.result import RunResult
from ..engine.run.about import about_priority
from ..engine.run.log_cache import log_in
from ..engine.session.owner import own_session
from ..engine.states.fork import write_fork
from ..engine.states.loading import found, waiting_tools
from ..engine.states.named_start import ONCE, NamedStart, plain_part
from ..engine.states.state import RunState
from ..engine.states.taken_over import Keeping, TakeoverOptions, take_over, write
from ..engine.stream import followed
from ..engine.views.event_stream import StreamEvent
from ..engine.views.rows import rows_in
from ..engine.worker import Worker
from ..fleet import Engine
from ..inbox.desk import By, Inbox
from ..inbox.drills import Drills, DrillService
from ..inbox.insights import Insights
from ..inbox.restored import settle_whole
from ..journal import opened
from ..journal.base import Claim, Store
from ..journal.rows import ENDED, Query, RunRow
from ..policies.base import PolicyLike
from ..server.settings import ServerSettings
from .lifespan import AppResources, Lifespan
from .run_handle import RunHandle
from .settings import AppSettings
from .waiting import waited
from .workers import AppWorkers, why_down

_STOPPED = "this process's worker was stopped while the app is open, so its runs are not executed here; call `start`"


class App(AppSettings):
    """Runs agents on a journal.

    `journal` is a store or its URL. The first `start` begins a worker in this process, unless `worker=False`.
    `context_type` is the dataclass or pydantic model of the runs' contexts, where `Agent[Ctx]` does not say so; any
    other that is no plain data needs `context_serializer` and `context_deserializer`. `sessions` makes one of an id;
    `session_store` names where they are kept, for apps that share a journal and have sessions of their own.

    `embedded`, which can be changed, says whether this process moves runs, as `worker=` did. `trusted_keys` are the ids
    of people's keys that this process trusts by itself; others count where a person with a trusted key confirmed them.

    The app owns the MCP servers of its agents: each is connected when a run first needs it, shared by all runs, and
    closed with the app. `lifespan(app)` is an async context manager for all else, entered before the first run is
    moved; tools find what it yields in `context.resources`. `channels` tell people what waits, `drills` are mixed in.

    >>> import asyncio
    >>> from keyturn import Agent, App
    >>> from keyturn.testing import ScriptedModel
    >>> async def main():
    ...     async with App(agents=[Agent(name="ops", model=ScriptedModel(["done"]))], journal="memory://") as app:
    ...         run = await app.start("ops", "Rotate the staging keys")
    ...         return (await run.result()).final_output
    >>> asyncio.run(main())
    'done'
    """

    def __init__(
        self,
        agents: Sequence[Agent[Any] | AgentDeclaration],
        journal: Store | str,
        policy: PolicyLike | None = None,
        *,
        run_config: RunConfig | dict[str, Any] | None = None,
        hooks: RunHooks[Any] | None = None,
        sessions: Callable[[str], Any] | None = None,
        session_store: str | None = None,
        context_serializer: Callable[[Any], Any] | None = None,
        context_deserializer: Callable[[Any], Any] | None = None,
        context_type: type[Any] | None = None,
        lifespan: Lifespan | None = None,
        trusted_keys: Sequence[str] = (),
        channels: Channels = (),
        drills: Drills | None = None,
        worker: bool = True,
        slots: int = 100,
        grace: float = 30.0,
        lease: float = 60.0,
        engine: Engine | str | None = None,
        fleet_slots: int | None = None,
    ) -> None:
        self._given(agents, locals())
        self.journal = opened(journal) if isinstance(journal, str) else journal
        self.engine, self.fleet_slots = engine, fleet_slots
        self.people = People(self.journal, roots=trusted_keys)
        self.inbox = Inbox(self.journal, self.agents, self.people)
        self.audit = Audit(self.journal, trusted_keys=trusted_keys)
        self.insights = Insights(self.journal, self.people)
        self.asks = AskService(self, self._taken)
        self._resources = AppResources(self, lifespan)
        self._telling = ChannelService(self.journal, channels)
        self._drilling = DrillService(self.journal, self.agents, drills, self._options)
        self._workers = AppWorkers(self._hire)
        self._sessions = 0  # realtime sessions that are open here
        self._users, self._served = 0, False  # blocks, calls of `work`, and until `stop` a server that opened the app

    async def __aenter__(self) -> Self:
        await self._resources.open()
        self._users += 1
        self._employ()
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self._users -= 1
        if not self._users:  # others of this process go on
            await self.stop()

    async def start(
        self,
        agent: str,
        input: str | list[Any],
        *,
        context: Any = None,
        session_id: str | None = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        requester: str | None = None,
        once: str | None = None,
        priority: Priority = "normal",
    ) -> RunHandle:
        """Record that a run starts, and return at once; a worker goes on with it, here or elsewhere.

        `requester` is the id of the person for whom it runs, who cannot decide calls whose terms say `not_requester`.
        With `session_id`, the first requester who starts a run on a session owns it: for another it is `NotPending`.
        `once` names this start: said again, it is the same run. Those of priority "batch" are executed last.
        """
        self._check_context(self._agent(agent), context)
        self._lint_agents()
        await self.at_work()
        session = self.session(session_id)
        start = {"context": context, "max_turns": max_turns, "session": session, "requester": requester}
        play = play_of(self._agent(agent), input, **self._options(), **start)
        first: Any = play.state.undelivered.start
        first["about"] = about = self.about_session(session_id) | about_priority(priority)
        play.live.serializer, play.live.witness = self.context_serializer, self.people
        if once is None:
            return RunHandle(self, await play.begin())
        named = NamedStart(once, [agent, input, plain_part(context), session_id, plain_part(max_turns), requester])
        first["about"] = about | {ONCE: named.said}
        play.live.run.id, play.live.named = named.run, True
        return RunHandle(self, await named.begun(self.journal, play.begin))

    def asgi(self, settings: ServerSettings | None = None) -> Callable[..., Awaitable[None]]:
        """Return the server of this app, pages and API, to be served alone or mounted in another ASGI app."""
        from ..server.mounting import served

        return served(self, settings)

    @property
    def hosting(self) -> Hosting:
        """Return what a session that is not begun by `start` needs to be one of the app's runs."""
        at = self._hosted, self._let_go
        return Hosting(self.run_config, self._contexts, *at, self._policy_now, self.hooks, self._check_session)

    async def _hosted(self, play: Execution) -> None:
        """Attach an execution that a session makes, and keep what the app owns for as long as that lasts."""
        self._sessions += 1
        try:
            await self._attached(play)
        except BaseException:
            await self._let_go()
            raise

    async def _let_go(self) -> None:
        self._sessions -= 1
        await self._close_unused()

    async def _attached(self, play: Execution) -> None:
        """Give an execution that the app makes its resources, and who verifies signatures."""
        await self._resources.open()
        play.live.serializer, play.live.witness = self.context_serializer, self.people
        play.live.context.resources, play.live.context.keep_server = self._resources.value, self._resources.keep

    def run(self, run_id: str) -> RunHandle:
        """Return a handle on a run that was started before."""
        return RunHandle(self, run_id)

    async def runs(self, query: Query | None = None, **wanted: Any) -> list[RunRow]:
        """Return rows of runs, by when they started."""
        return await self.journal.runs(query or Query(**wanted))

    async def get(self, run_id: str) -> RunRow:
        """Return a run's row, or raise `RunMissing`."""
        found = await self.journal.runs(Query(run=run_id))
        if not found:
            raise RunMissing(run_id)
        if found[0].status == "damaged":  # the log says what it was, or that it is damaged as well
            return (await rows_in(self.journal, run_id)).run
        return found[0]

    async def wait(self, run_id: str, timeout: float | None = None) -> RunRow:
        """Wait until a run is over or requires a decision; raise `TimeoutError` where that takes too long."""
        seen: list[RunRow] = []
        try:
            async with asyncio.timeout(timeout):
                return await waited(self.journal, partial(self.get, run_id), run_id, seen)
        except TimeoutError:
            status = seen[-1].status if seen else "not found yet"
            raise TimeoutError(
                f"run {run_id} was {status} after {timeout} s and continues: wait longer, or check its worker"
            ) from None

    async def result(self, run_id: str, timeout: float | None = None) -> RunResult:
        """Return what `Runner.run` would: a final answer or interruptions; raise `RunStopped` where it was stopped."""
        row = await self.wait(run_id, timeout)
        if row.status in ENDED and row.status != "finished":
            kept = "" if row.status == "erased" else (await log_in(self.journal, run_id)).run.traceback
            raise RunStopped(run_id, row.status, row.error, kept)
        state = await self._state(run_id)
        return RunResult(state.live, await waiting_tools(state.live))

    async def state(self, run_id: str) -> RunState[Any]:
        """Return the state of a run, to be looked at or resumed with `Runner.run`."""
        await self.get(run_id)
        return await self._state(run_id)

    async def stream(self, run_id: str) -> AsyncIterator[StreamEvent]:
        """Stream what happens in a run, whoever moves it, from its beginning to its end; deltas are not recorded."""
        agent = self._agent((await self.get(run_id)).agent)
        async with contextlib.aclosing(followed(self.journal, run_id, agent)) as events:
            async for event in events:
                yield event

    async def send(self, run_id: str, message: str | list[Any], *, once: str | None = None) -> None:
        """Add a message that the model reads at its next turn; `once` names it, so that it is added once."""
        await self.inbox.send(run_id, message, once=once)

    async def resume(
        self, run_id: str, max_turns: int | None = None, *, by: By | None = None, once: str | None = None
    ) -> None:
        """Resume a run that failed, with another limit of turns if given, once under a name; see `Inbox.resume`."""
        await self.inbox.resume(run_id, by=by, max_turns=max_turns, once=once)
        await self.at_work()

    async def cancel(self, run_id: str, *, by: By | None = None, why: str = "") -> None:
        """Cancel a run, wherever it is being moved; the outcome of a tool at work is unknown."""
        await self.inbox.cancel(run_id, by=by, why=why)

    async def fork(self, run_id: str, at: int | None = None, *, once: str | None = None) -> RunHandle:
        """Start a new run from the first `at` lines of another; grants and approvals stay with the old one.

        `once` names the fork, so that the run is forked once.
        """
        self._agent((await self.get(run_id)).agent)
        made = await write_fork(self.journal, run_id, at, once)
        await self.at_work()
        return RunHandle(self, made)

    async def take_over(
        self,
        agent: str,
        data: Mapping[str, Any] | str,
        *,
        trust: bool = False,
        session_id: str | None = None,
        requester: str | None = None,
        **options: Unpack[TakeoverOptions],
    ) -> RunHandle:
        """Take over a paused run of openai-agents into the journal, once; see `RunState.from_openai_agents`.

        `session_id` and `requester` are those of `start`.
        """
        about = self.about_session(session_id)
        keeping = Keeping(self.journal, await self.journal.now(), about, requester)
        taken = await take_over(self._agent(agent), data, trust=trust, keeping=keeping, **options)
        state = await RunState.taken_over(taken)
        await own_session(self.journal, about, requester)
        await write(state.live, state.undelivered, keeping)
        self._employ()
        return RunHandle(self, state.run_id)

    def work(self, slots: int | None = None) -> Coroutine[Any, Any, None]:
        """Move runs until `stop` is called, at most `slots` at once: what `keyturn worker` does.

        A store that was brought back from a copy is settled first: what it lets run is in doubt from then on.
        """
        return self._work(slots, self._workers.stops)

    async def _work(self, slots: int | None, stops: int) -> None:
        self.slots = self.slots if slots is None else slots
        if not await self._resources.opened(lambda: stops != self._workers.stops):
            return
        self._line.begin(self)
        self._users += 1
        stopped = False
        try:
            await self._workers.work(stops)
            stopped = True
        finally:
            self._users -= 1
            if self._users and not stopped:
                self._employ()
            await self._close_unused()

    async def stop(self) -> None:
        """Stop this process's workers, though blocks are open; then close its MCP servers, and its lifespan.

        What was begun ends, or is in doubt after `grace`.
        """
        self._users, self._served = self._users - self._served, False
        try:
            await self._workers.stop()
        finally:
            await self._close_unused()

    async def _close_unused(self) -> None:
        if not self._workers:
            await self._telling.stop()
            await self._drilling.stop()
        if not self._users and not self._sessions and not self._workers.embedded:
            await self._resources.close()
            await self._line.end(self)

    @property
    def busy(self) -> int:
        """Return how many runs this process moves right now."""
        return self._workers.busy

    @property
    def trouble(self) -> str | None:
        """Return why no worker of this process can work on the journal now; None while one can, or none is wanted."""
        return self._workers.trouble or (_STOPPED if self._users and self.embedded and not self._workers else None)

    async def check_health(self, seconds: float = 4.0) -> str | None:
        """Return why the journal, which is asked, or this process's worker cannot work; None while they can."""
        return await why_down(self.journal, seconds) or self.trouble

    async def at_work(self, *, serves: bool = False) -> None:
        """Have a worker here, unless the app leaves runs to others; a server that opens it so uses it until `stop`."""
        if self.embedded:
            await self._resources.open()
            if serves and not self._users:
                self._users, self._served = 1, True
        self._employ()

    def _employ(self) -> None:
        self._line.begin(self)
        if self.embedded:
            self._workers.embed()

    def _hire(self) -> Worker:
        self._telling.start()
        self._drilling.start()
        hired = partial(Worker, self.journal, self._taken, slots=self.slots, grace=self.grace, lease_ms=self.lease_ms)
        worker = hired(settle=partial(settle_whole, self.journal), agents=lambda: self.agents, line=self._line)
        worker.limit_fleet(self._limits)
        return worker

    def shared_mover(self, name: str, slots: int) -> Mover:
        """Return what moves runs of this app in a worker of this name, which serves others as well."""
        self._telling.start()
        self._drilling.start()
        return Mover(self.journal, self._taken, name=name, slots=slots, lease_ms=self.lease_ms, agents=self.agents.keys)

    async def _taken(self, claim: Claim) -> Execution:
        """Make the execution of a run that this worker holds."""
        state = await self._state(claim.run, held=True)
        play = play_of(state.live.graph.root, state, **self._options(), session=self.session_of(state.live.run.about))
        play.claim, play.lease_ms = claim, self.lease_ms
        await self._attached(play)
        return play

    async def _state(self, run_id: str, *, held: bool = False) -> RunState[Any]:
        live = await found(self.journal, run_id, self._agent, self._contexts, held=held)
        live.context.resources, live.context.keep_server = self._resources.value, self._resources.keep
        return await RunState.of(live)

    def _options(self) -> dict[str, Any]:
        of_runs = {"journal": self.journal, "run_config": self.run_config}
        return {**of_runs, "hooks": self.hooks, "policy_of": self._policy_now}
