"""The first life of a trial: it plays a chapter until it is ended, or to its end where its store fails and is mended.

Plain, listened to, several runs at once, or by an app with a worker. Who ends it, and how, is not known here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from keyturn.core.errors import Conflict, StorageError
from keyturn.journal.rows import Query

from .lifecycle import CHAPTERS, STORIES, Story
from .lives import LATER_MS, ROUNDS, Life, Place, Talk
from .office import Office
from .world import World

# Twentieths of a second: longer than any step of a story takes.
QUIET = 20


class FirstLife(Life):
    """Plays a chapter. When the store failed and was told of, `mend` makes room again, and time has passed."""

    def __init__(
        self, place: Place, way: str, world: World, care: tuple[Callable[[], bool], Callable[[], None]]
    ) -> None:
        super().__init__(place, way, world)
        self._struck, self._mend = care
        self.trouble = Counter[str]()

    async def play(self, chapter: str) -> dict[str, Any]:
        """Play all stories of a chapter; what it met."""
        try:
            self.open()
        except StorageError as error:
            self._endure(error, "opening: ")
            self.open()
        stories = [STORIES[name] for name in CHAPTERS[chapter]]
        if self.way == "app":
            await self._employ(stories)
        else:
            await self.each([lambda story=story: self._tell(story) for story in stories])
        await self.store.close()
        return {"trouble": dict(self.trouble), "effects": self.world.count, "doubts": self.person.doubts}

    async def _employ(self, stories: list[Story]) -> None:
        """Have an app do it, and somebody who mends what the store stands on."""
        async with self._cared_for(), Office(self.store, self.person, self.place.folder, self.circle) as office:
            await asyncio.gather(*(self._start(office, story) for story in stories))
        self.trouble += Counter({"that a run failed": office.failures})

    async def _call(self, story: Story) -> Talk:
        async with self._cared_for():  # the worker waits for the store, and the caller for the worker
            return await super()._call(story)

    @asynccontextmanager
    async def _cared_for(self) -> AsyncGenerator[None]:
        caring = asyncio.ensure_future(self._care())
        try:
            yield
        finally:
            caring.cancel()

    async def _care(self) -> None:
        """Make room as soon as the store failed; where then nothing happens for a while, let holds run out."""
        quiet = 0
        while True:
            seen = self.store.count
            await asyncio.sleep(0.05)
            if self._struck():
                self._mend()
                quiet = quiet + 1 if self.store.count == seen else 0
            if quiet >= QUIET:
                quiet = 0
                self.ahead += LATER_MS
                self.store._bell.ring_all()  # who waits for the old time to come looks at the new one

    async def _start(self, office: Office, story: Story) -> None:
        for number, text in enumerate(story.asked):
            for _ in range(ROUNDS):
                try:
                    found = sorted(await self.store.runs(Query(agent=story.name)), key=lambda row: row.started_at)
                    run = found[number].run if len(found) > number else await office.start(story, text)
                    await office.settle(story, run)
                    break
                except StorageError as error:  # time does not pass for it: others are at work
                    self.trouble[type(error).__name__] += 1
                    self._mend()

    async def _tell(self, story: Story) -> None:
        before = set[str]()
        for text in story.asked:
            before.add(await self._one(story, text, before))

    async def _one(self, story: Story, text: str, before: set[str]) -> str:
        """Play one run to its end, whatever the store does meanwhile."""
        result: Any = None
        run_id: str | None = None
        for _ in range(ROUNDS):
            try:
                if result is not None and self.way == "streamed":
                    given = result.to_state()
                else:
                    given = text if run_id is None else await self.state(story, run_id)
                result = await self.run(story, given)
                run_id = result.run_id
                if not result.interruptions:
                    return result.run_id
            except (StorageError, Conflict) as error:
                self._endure(error)
                found = [row.run for row in await self.store.runs(Query(agent=story.name))]
                result, run_id = None, next((run for run in found if run not in before), None)
        raise AssertionError(f"{story.name}: still waiting after {ROUNDS} rounds")

    def _endure(self, error: StorageError | Conflict, when: str = "") -> None:
        self.trouble[when + type(error).__name__] += 1
        self.ahead += LATER_MS
        self._mend()
