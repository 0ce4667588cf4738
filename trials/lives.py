"""What every life of a trial has: a place, a world, a person, a store that is witnessed, and a way of playing.

A life is a process of its own: one that plays (`first_life.py`), and one after it that checks (`after_life.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from keyturn import App, Inbox, Runner, RunState
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.base import Store
from keyturn.journal.memory import MemoryJournal
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.realtime import RealtimeRunner, RealtimeSession
from keyturn.sessions.sqlite import SQLiteSession

from .lifecycle import PERSON, POLICY, STORIES, Person, Story
from .outside import Caller
from .several import Circle
from .talked import at_inbox, in_session, speaker, talked
from .witness import Witness
from .world import World

ROUNDS = 30
WAYS = ("plain", "together", "streamed", "app")
# Later than any claim lasts, so that a life may take over from the one before it.
LATER_MS = 600_000
MEMORY = "memory://"
# The stores in this process's memory, by the folder of their place.
IN_MEMORY: dict[Path, MemoryJournal] = {}


@dataclass(frozen=True)
class Place:
    """Where a trial happens: a folder for files, and where its store is. `ahead` is how late it is there."""

    folder: Path
    url: str = ""
    tenant: str = "default"
    ahead: int = 0

    @property
    def file(self) -> Path:
        """The SQLite file."""
        return self.folder / "runs.db"

    def open(self, clock: Callable[[], int] | None) -> Any:
        """The store, through a connection of its own."""
        if self.url == MEMORY:
            return IN_MEMORY.setdefault(self.folder, MemoryJournal(clock)).of(self.tenant)
        if self.url:
            return PostgresJournal(self.url, clock=clock).of(self.tenant)
        return SQLiteJournal(self.file, clock=clock)


class Talk(NamedTuple):
    """What came of a run that was talked to, or that a program outside asked for."""

    run_id: str
    final_output: Any
    interruptions: tuple[Any, ...] = ()


class Life:
    """What every life has: a place, a world, a person, and a way of playing."""

    def __init__(self, place: Place, way: str, world: World) -> None:
        self.place, self.way, self.world = place, way, world
        self.person = Person(world)
        self.ahead = place.ahead
        self.store: Any = None
        self.circle: Circle

    def open(self) -> None:
        """Open the store. Its clock is the database's own unless time is to pass."""
        clock = None if self.place.url and not self.ahead else self._now
        self.attend(Witness(self.place.open(clock), self.place.folder))

    def attend(self, store: Any) -> None:
        """Take a store for this life, with the people who decide in it."""
        self.store, self.circle = store, Circle(store, self.world)

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead

    async def each(self, todo: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        """Do all, one after the other or at once."""
        if self.way == "together":
            await asyncio.gather(*(do() for do in todo))
            return
        for do in todo:
            await do()

    async def run(self, story: Story, given: Any) -> Any:
        """Run, plain or listened to; one that is talked to runs to its end."""
        if story.rounds:
            return await self._talk(story, given)
        if story.calls is not None:
            return await self._call(story)
        session = SQLiteSession(story.name, self.place.folder / "session.db") if story.session else None
        agent = story.agent(self.world)
        if isinstance(given, RunState) and story.people:
            self.person.doubts += await self.circle.settle(story, given.run_id)
            given = await self.state(story, given.run_id)
        elif isinstance(given, RunState):
            self.person.settle(story, given)
        options: Any = {"journal": self.store, "session": session, "policy": POLICY}
        try:
            if self.way != "streamed":
                return await Runner.run(agent, given, **options)
            stream = Runner.run_streamed(agent, given, **options)
            async for _event in stream.stream_events():
                pass
            return stream.run_loop_task.result()
        finally:
            if session is not None:
                session.close()

    async def _talk(self, story: Story, given: Any) -> Talk:
        """Decide in the session, or where it is listened to after leaving it."""
        inbox = Inbox(self.store)

        async def outside(session: RealtimeSession, item: Any) -> bool:
            await session.close(end=False)
            await at_inbox(story, self.person, PERSON, inbox, session, item)
            return False

        runner = RealtimeRunner(story.agent(self.world), model=speaker(), journal=self.store, policy=POLICY)  # type: ignore[arg-type]
        decide = outside if self.way == "streamed" else partial(in_session, story, self.person, PERSON)
        run = await talked(story, runner, self.store, given.run_id if isinstance(given, RunState) else None, decide)
        return Talk(run, (await log_in(self.store, run)).run.output)

    async def _call(self, story: Story) -> Talk:
        """Have a program outside ask, and an app with a worker answer it."""
        async with App([story.agent(self.world)], self.store, POLICY) as app:
            state = await Caller(app, story, self.person).play()
        return Talk(state.id, state.result)

    async def state(self, story: Story, run_id: str) -> RunState[Any]:
        """The run as the store has it."""
        return await RunState.load(self.store, run_id, story.agent(self.world))


def shapes(items: Sequence[Any]) -> list[str]:
    """What items are, in short."""
    return [f"{item.get('type', 'message')}:{item.get('role', '')}:{item.get('call_id', '')}" for item in items]


async def uncut(store: Callable[[], Store], folder: Path, names: Iterable[str] = STORIES) -> dict[str, Any]:
    """What stories answer, and what their sessions hold, when nothing goes wrong."""
    answers, sessions = dict[str, Any](), dict[str, list[list[str]]]()
    for story in (STORIES[name] for name in names):
        life = Life(Place(folder), "plain", World(folder / f"effects-{story.name}"))
        life.attend(store())
        seen = 0
        for text in story.asked:
            result = await life.run(story, text)
            while result.interruptions:
                result = await life.run(story, await life.state(story, result.run_id))
            answers[f"{story.name}/{text}"] = result.final_output
            if story.session:
                session = SQLiteSession(story.name, folder / "session.db")
                items = shapes(await session.get_items())
                session.close()
                sessions.setdefault(story.name, []).append(items[seen:])
                seen = len(items)
    return {"answers": answers, "sessions": sessions}
