"""One process of the deployment: it serves people's clicks and moves runs that are due, until it stops or dies.

All it does it does through what is public: `App` with its worker and inbox, or `Runner`, `RunState` and a loop of its
own. It keeps nothing that outlives it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from keyturn import Conflict, KeyturnError, Runner, RunState
from keyturn.app import App
from keyturn.core.errors import StorageError
from keyturn.engine.run.used_states import UsedStates
from keyturn.journal.base import RESERVED
from keyturn.journal.rows import Query, RequestRow

from .cast import ProviderDown, cast_of, voice_of
from .loop import Process
from .store import FaultyStore
from .telling import dispatcher
from .witness import Word
from .world import World

EXPECTED = (KeyturnError, ProviderDown)
Said = tuple[str, Word]  # the call, and what was said of it


class Site:
    """A process with its own connection, agents and memory."""

    def __init__(self, world: World, name: str, left: int | None = None, skew: int = 0) -> None:
        self.world, self.process = world, Process(name, left, skew)
        self.process.here["world"] = world
        self.used = UsedStates()
        self.store = FaultyStore(world, self.process)
        self.agent, self.voice = cast_of(world.plan.root, world), voice_of(world.plan.root, world)
        fate = world.fate
        slots, grace = fate.choice((1, 2, 100)), fate.choice((0.0, 5.0, 100.0))
        self.app = App([self.agent, self.voice], self.store, world.plan.policy, worker=False, slots=slots, grace=grace)
        self.streams = world.plan.knobs.streams and fate.random() < 0.3
        self.by_app = fate.random() < 0.6
        self.tells = world.plan.knobs.telling and world.telling_dice.random() < 0.6

    async def serve(self) -> None:
        """Move runs that are due, one beside another, until it is stopped; and perhaps tell people."""
        if self.tells:
            self.world.loop.begin(self.process, dispatcher(self.world, self.store).run())
        if self.by_app:
            await self.app.work()
            return
        fate = self.world.fate
        while True:
            try:
                await self.store.stir(fate.choice((1.0, 10.0, 60.0)))
                due = [run for run in await self.store.due() if not run.startswith(RESERVED)]
                for run in (each for each in due if not self.world.talked(each)):
                    self.world.loop.begin(self.process, self.move(run))
            except StorageError:
                pass
            await asyncio.sleep(fate.choice((0.1, 0.5, 5.0)))

    async def start(self) -> None:
        """Start a run."""
        context = {"who": self.process.name}
        if self.by_app:
            await self.tried("start", lambda: self._started(context))
        else:
            state = RunState(context, "go", self.agent, 6)
            state.live.used = self.used
            await self.drive(state)

    async def _started(self, context: Any) -> None:
        run = await self.app.start("desk", "go", context=context, max_turns=6)
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
        options |= {"policy": world.plan.policy, "journal": self.store}
        run = given.run_id if isinstance(given, RunState) else ""
        if await self.tried("drive", lambda: self._driven(given, options)):
            world.acknowledged += [(run, call, word) for call, word in said or []]

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
            self.world.note("".join(traceback.format_exception(error)))
            self.world.wrong(f"{what} raised {type(error).__name__}: {error}")
            return False
        return True

    def refused(self, what: str, error: Exception) -> None:
        """Something was refused, as it may be."""
        who = " (somebody else has it)" if isinstance(error, Conflict) and "held by" in str(error) else ""
        self.world.count(f"refused: {type(error).__name__}{who}")
        self.world.note(f"{what} refused: {type(error).__name__}: {error}")
