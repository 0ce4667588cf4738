"""One process of the deployment: it serves people's clicks and moves runs that are due, until it stops or dies.

All it does it does through what is public: `App` with its worker and inbox, or `Runner`, `RunState` and a loop of its
own. It keeps nothing that outlives it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

from keyturn import Conflict, ExternalAgent, KeyturnError, Policy, RunConfig, Runner, RunState, UserError
from keyturn.application.app import App
from keyturn.core.errors import StorageError
from keyturn.engine.run.used_states import UsedStates
from keyturn.inbox.drills import Drill, Drills
from keyturn.journal.base import RESERVED
from keyturn.journal.rows import Query, RequestRow
from keyturn.policies.rules import ask, deny

from .cast import ProviderDown, RandomModel, cast_of, voice_of
from .kinds import DRILLS_AT_MOST, DRILLS_EVERY, UNASKED
from .loop import Process
from .patience import GaveUp, impatient
from .poison import is_ordinary
from .seen import Word
from .store import FaultyStore
from .telling import dispatcher
from .turns import SESSION, Shelf
from .world import World

EXPECTED = (KeyturnError, ProviderDown, GaveUp)
_DRILLED = {"n": 13, "note": "drill"}
Said = tuple[str, Word]  # the call, and what was said of it


class Site:
    """A process with its own connection, agents and memory."""

    def __init__(self, world: World, name: str, left: int | None = None, skew: int = 0, *, drills: bool = True) -> None:
        self.world, self.process = world, Process(name, left, skew)
        self.process.here["world"] = world
        self.used = UsedStates()
        self.store = FaultyStore(world, self.process)
        self.agent, self.voice = cast_of(world.plan.root, world), voice_of(world.plan.root, world)
        fate = world.fate
        slots, grace = fate.choice((1, 2, 100)), fate.choice((0.0, 5.0, 100.0))
        kinds = world.plan.kinds
        self.config = RunConfig(paused_session="queue", policy=world.plan.policy)
        self.app = App(
            [self.agent, self.voice, *([ExternalAgent("outside")] if kinds.outside else [])],
            self.store,
            run_config=self.config,
            sessions=lambda _id: Shelf(world),
            drills=_drills(world) if kinds.drills and drills else None,
            worker=False,
            slots=slots,
            grace=grace,
        )
        # The runs that are driven here without the app, under the policy with which their drive began.
        self.driven = Counter[str]()
        self.streams = world.plan.knobs.streams and fate.random() < 0.3
        self.by_app = fate.random() < 0.6 or bool(kinds.outside)  # those who call from outside call an app
        self.tells = world.plan.knobs.telling and world.telling_dice.random() < 0.6

    async def serve(self) -> None:
        """Move runs that are due, one beside another, until it is stopped; and perhaps tell people."""
        if self.tells:
            self.world.loop.begin(self.process, dispatcher(self.world, self.store).run())
        if self.by_app:
            await self.tried("work", self.app.work)
            return
        fate = self.world.fate
        while True:
            try:
                await self.store.wait_until_due(fate.choice((1.0, 10.0, 60.0)))
                due = [run for run in await self.store.due() if not run.startswith(RESERVED)]
                for run in (each for each in due if not self.world.talked(each)):
                    self.world.loop.begin(self.process, self.move(run))
            except StorageError:
                pass
            await asyncio.sleep(fate.choice((0.1, 0.5, 5.0)))

    async def assign_late(self, after: float) -> None:
        """Set a gate on what runs already: on a tool of the agents, or by a policy of the app."""
        await asyncio.sleep(after)
        kinds, app, model = self.world.plan.kinds, self.app, cast("RandomModel", self.agent.model)
        if kinds.late_policy and self.by_app:
            rules = () if self.world.plan.policy is None else self.world.plan.policy.rules
            self._assign_wrongly()
            app.policy = Policy(ask(tool=kinds.late, where={"note": {"matches": "late.*"}}), *rules)
            self.config.policy = app.policy  # of what is resumed here without the app
            self.world.witness.ungated |= {(self.process.name, run) for run in self.driven if self.driven[run]}
        elif not kinds.late_policy:
            for tool in model.late:
                tool.needs_approval = True
        else:
            return
        model.gated = True
        self.world.count("gates set late")
        self.world.note(f"a gate is set on {kinds.late}")

    def _assign_wrongly(self) -> None:
        """Set a policy about a tool that the app does not have: it is refused, and what was in force stays."""
        before = self.app.policy
        try:
            self.app.policy = Policy(deny(tool="payy", agent="desk"))
        except UserError:
            self.world.count("rules refused")
        else:
            self.world.wrong("a rule about a tool that the app does not have was taken")
        if self.app.policy is not before:
            self.world.wrong("a policy that was refused is in force")

    async def start(self, queued: str = "") -> None:
        """Start a run; one that is queued waits for its turn on the session."""
        context, said = {"who": self.process.name}, queued or "go"
        if self.by_app or queued:  # whose session it is must be known by a name, so that every worker has it
            await self.tried("start", lambda: self._started(context, said, SESSION if queued else None))
        else:
            state = RunState(context, said, self.agent, 6)
            state.live.used = self.used
            await self.drive(state)

    async def _started(self, context: Any, said: str, session: str | None) -> None:
        run = await self.app.start("desk", said, context=context, session_id=session, max_turns=6)
        self.world.kept["start", run.id] += 1

    async def told(self, what: str, run: str, do: Callable[[], Awaitable[object]]) -> None:
        """Say something to a run; once that comes back it is kept."""
        if await self.tried(what, do):
            self.world.kept[what, run] += 1

    async def load(self, run: str) -> RunState[Any] | None:
        """A state of a run, if it can be had."""
        try:
            state = await RunState.load(self.store, run, self.agent)
        except EXPECTED as error:
            self.refused("load", error)
            return None
        state.live.used = self.used
        return state

    async def rows(self, run: str) -> list[RequestRow]:
        """All requests of a run, if they can be had."""
        try:
            return await self.store.requests(Query(run=run))
        except EXPECTED as error:
            self.refused("requests", error)
            return []

    async def move(self, run: str, max_turns: int | None = None) -> None:
        """Take a run up with nothing new to say."""
        state = await self.load(run)
        if state is not None:
            options: dict[str, Any] = {} if max_turns is None else {"max_turns": max_turns}
            await self.drive(state, **options)

    async def drive(self, given: Any, said: list[Said] | None = None, **options: Any) -> None:
        """Drive a run; what was said on its state is acknowledged when this comes back without an error."""
        world = self.world
        world.count("drives")
        options |= {"run_config": self.config, "journal": self.store}
        run = given.run_id if isinstance(given, RunState) else ""
        seen = world.witness.runs.get(run)
        if seen is not None and seen.session:
            options["session"] = Shelf(world)
        self.driven[run] += 1
        try:
            if await self.tried("drive", lambda: impatient(self._driven(given, options), world)):
                world.acknowledged += [(run, call, word) for call, word in said or []]
        finally:
            self.driven[run] -= 1
            if not self.driven[run]:
                world.witness.ungated.discard((self.process.name, run))

    async def _driven(self, given: Any, options: dict[str, Any]) -> None:
        if not self.streams:
            await Runner.run(self.agent, given, **options)
            return
        stream = Runner.run_streamed(self.agent, given, **options)
        async for event in stream.stream_events():
            self.world.meddle(getattr(getattr(event, "item", None), "raw_item", None))

    async def tried(self, what: str, do: Callable[[], Awaitable[object]]) -> bool:
        """Do something that may be refused for a reason, and never for none."""
        try:
            await do()
        except EXPECTED as error:
            self.refused(what, error)
            return False
        except Exception as error:
            if is_ordinary(error):
                self.refused(what, error)
                return False
            self.world.note("".join(traceback.format_exception(error)))
            self.world.wrong(f"{what} raised {type(error).__name__}: {error}")
            return False
        except BaseException as error:  # when all is over, each process is taken apart
            if not self.world.closed:
                self.world.note("".join(traceback.format_exception(error)))
                self.world.wrong(f"{what} raised {type(error).__name__}: {error}, which ends a process")
            raise
        return True

    def refused(self, what: str, error: Exception) -> None:
        """Something was refused, as it may be."""
        who = " (somebody else has it)" if isinstance(error, Conflict) and "held by" in str(error) else ""
        self.world.count(f"refused: {type(error).__name__}{who}")
        self.world.note(f"{what} refused: {type(error).__name__}: {error}")


def _drills(world: World) -> Drills:
    """Drills of the root's tools."""
    templates = [
        Drill(agent="desk", tool=spec.name, arguments=_DRILLED, input="Do it, quickly.", by=by)
        for spec in world.plan.root.tools
        for by in ["policy:1" if spec.gate in UNASKED else "tool"]
    ]
    return Drills(templates, every=DRILLS_EVERY / 1_000, at_most=DRILLS_AT_MOST)
