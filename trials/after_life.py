"""The last life of a trial: it finds what an ended process left, settles it, and says which promises were broken.

Every run must end as it does when nothing goes wrong, every effect have happened once, what was acknowledged be there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from keyturn.asks.standing import state_of
from keyturn.audit.checker import check
from keyturn.core.codec import Log
from keyturn.core.events import CallDecided
from keyturn.core.run import request_id
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.rows import Query, RunRow
from keyturn.sessions.sqlite import SQLiteSession

from .lifecycle import STORIES
from .lives import ROUNDS, Life, Place, shapes
from .office import Office
from .several import overspent, untold
from .witness import lost, noticed, told
from .world import World


class AfterLife(Life):
    """Finds what an ended process left, settles it, and says which promises were broken.

    `known` are the answers and the session of each story when nothing goes wrong.
    """

    def __init__(self, place: Place, way: str, world: World, known: dict[str, Any]) -> None:
        super().__init__(place, way, world)
        self._known = known
        self.claims = True
        self.broken: list[str] = []

    async def play(self) -> dict[str, Any]:
        """Settle everything; what was found."""
        self._whole()
        self.open()
        await self._sound("before")
        rows = await self._rows()
        if self.way == "app":
            async with Office(self.store, self.person, self.place.folder, self.circle) as office:
                await asyncio.gather(*(office.settle(STORIES[row.agent], row.run) for row in rows))
            if office.failures:
                self.broken.append(f"{office.failures} runs failed and had to be taken up again")
        else:
            await self.each([lambda row=row: self._finish(row) for row in rows])
        for row in await self._rows():
            await self._judge(row)
        waiting = await self.store.requests(Query(state="open"))
        # What somebody let run alone may be reviewed when its run is long over.
        if left := [row for row in waiting if row.kind != "review"]:
            self.broken.append(f"{len(left)} requests are open although every run is over")
        await self._sessions(rows)
        self.broken += await overspent(self.store, self.world.deeds())
        self.broken += await untold(self.store, self.place.folder, noticed(self.place.folder))
        await self._sound("after")
        await self.store.close()
        return {"broken": self.broken, "doubts": self.person.doubts, "runs": len(rows)}

    async def _rows(self) -> list[RunRow]:
        """The runs of the stories: a log that counts for several runs is none of them."""
        return [row for row in await self.store.runs(Query(limit=1_000)) if row.agent in STORIES]

    def _whole(self) -> None:
        """The file is whole before anything else opens it."""
        if self.place.url or not self.place.file.exists():
            return
        import apsw

        db = apsw.Connection(str(self.place.file))
        [(said,)] = db.execute("PRAGMA integrity_check").fetchall()
        db.close()
        if said != "ok":
            self.broken.append(f"the file is not whole: {said}")

    async def _sound(self, when: str) -> None:
        """What was acknowledged is there, and the checker has nothing to say."""
        folder = self.place.folder
        self.broken += [f"{when}: {each}" for each in await lost(self.store, folder, claims=self.claims)]
        seen = Counter(deed.key for deed in self.world.deeds())
        report = await check(self.store, effects=seen, acknowledged=told(folder))
        self.broken += [f"{when}: {violation}" for violation in report.violations]

    async def _finish(self, row: RunRow) -> None:
        story = STORIES[row.agent]
        for _ in range(ROUNDS):
            state = await self.state(story, row.run)
            if state.live.run.status == "finished":
                return
            result = await self.run(story, state)
            if not result.interruptions:
                return
        self.broken.append(f"{story.name}: still waiting after {ROUNDS} rounds")

    async def _judge(self, row: RunRow) -> None:
        """A run ended as it does when nothing goes wrong, and did to the world what it had to, once."""
        story = STORIES[row.agent]
        log = await log_in(self.store, row.run)
        text = story.asked[0] if story.rounds or story.calls else str(log.run.input)
        if row.status != "finished" or row.waiting:
            self.broken.append(f"{story.name}: ended {row.status} with {row.waiting} waiting")
            return
        expected = story.effects if not story.session else [story.effects[story.asked.index(text)]]
        deeds = [deed for deed in self.world.deeds() if deed.run == row.run]
        if sorted({deed.what for deed in deeds}) != sorted(expected):
            self.broken.append(f"{story.name}: did {sorted({d.what for d in deeds})}, not {sorted(expected)}")
        retried = _retried(log)
        for key, count in Counter(deed.key for deed in deeds).items():
            what = next(deed.what for deed in deeds if deed.key == key)
            allowed = 99 if what.startswith("again") else 1 + (retried[key] if story.careless else 0)
            if count > allowed:
                self.broken.append(f"{story.name}: {what} happened {count} times and nobody said so")
        answer = log.run.output if story.calls is None else state_of(log).result
        if answer != self._known["answers"][f"{story.name}/{text}"]:
            self.broken.append(f"{story.name}: answered {answer!r}")

    async def _sessions(self, rows: list[RunRow]) -> None:
        """A session holds what its runs said, once and in order."""
        for story in (STORIES[name] for name in {row.agent for row in rows} if STORIES[name].session):
            session = SQLiteSession(story.name, self.place.folder / "session.db")
            items = shapes(await session.get_items())
            session.close()
            whole = self._known["sessions"][story.name]
            runs = sum(row.agent == story.name for row in rows)
            if items != [shape for part in whole[:runs] for shape in part]:
                self.broken.append(f"{story.name}: the session holds {items}")


def _retried(log: Log) -> Counter[str]:
    """How often somebody said "retry" of each call, by its key."""
    return Counter(
        request_id(log.run, event.decision.call)
        for step in log.steps
        for event in step.events
        if isinstance(event, CallDecided) and event.decision.verdict == "retry"
    )
