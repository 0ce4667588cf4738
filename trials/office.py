"""An app with a worker and people at its inbox, on the store of a life: the runs move by themselves, they decide.

What the inbox told her she has been told: it is written down as acknowledged.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any

from keyturn import App
from keyturn.core.errors import Conflict, NotPending
from keyturn.realtime import RealtimeRunner, RealtimeSession
from keyturn.sessions.sqlite import SQLiteSession

from .lifecycle import PERSON, POLICY, STORIES, Person, Story
from .outside import Caller
from .several import Circle, plan
from .talked import at_inbox, speaker, talked
from .witness import Witness

ROUNDS = 60
SECONDS = 20.0


class Office:
    """The app and the person. `failures` counts the runs that failed and that she had taken up again."""

    def __init__(self, store: Witness, person: Person, folder: Path, circle: Circle) -> None:
        self._store, self._person, self._circle = store, person, circle
        agents = [story.agent(person.world) for story in STORIES.values()]
        self.app = App(
            agents,
            store,  # type: ignore[arg-type]  # it is one in all that it does
            POLICY,
            sessions=lambda name: SQLiteSession(name, folder / "session.db"),
            channels=plan(folder),
        )
        self.failures = 0

    async def __aenter__(self) -> Office:
        await self.app.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.app.__aexit__(kind, error, trace)

    async def start(self, story: Story, text: str) -> str:
        """Start a run; one that is talked to is over then."""
        if story.rounds:
            return await self._converse(story, None)
        if story.calls is not None:
            return (await Caller(self.app, story, self._person).play()).id
        return (await self.app.start(story.name, text, session_id=story.name if story.session else None)).id

    async def settle(self, story: Story, run: str) -> None:
        """Decide what waits, until the run is over."""
        if story.rounds and (await self.app.get(run)).status != "finished":
            await self._converse(story, run)
        if story.calls is not None:
            await Caller(self.app, story, self._person).play()
        for _ in range(ROUNDS):
            row = await self.app.wait(run, SECONDS)
            if row.status == "finished":
                return
            if row.status == "failed":
                self.failures += 1
                await self.app.resume(run)
            else:
                await self._decide(story, run)
        raise AssertionError(f"{story.name}: not over after {ROUNDS} rounds")

    async def _converse(self, story: Story, run: str | None) -> str:
        """Talk as a customer does, of whose calls others decide at their inbox while the conversation goes on."""

        async def elsewhere(session: RealtimeSession, item: Any) -> bool:
            row = await at_inbox(story, self._person, PERSON, self.app.inbox, session, item)
            if row is not None:
                self._store.say(run=session.run_id, told=[[row.call, row.state, row.by]])
            return True

        runner = RealtimeRunner(story.agent(self._person.world), model=speaker(), app=self.app)  # type: ignore[arg-type]
        return await talked(story, runner, self._store, run, elsewhere)

    async def _decide(self, story: Story, run: str) -> None:
        if story.people:
            self._person.doubts += await self._circle.settle(story, run)
            await asyncio.sleep(0.01)
            return
        state = await self.app.state(run)
        for item in state.get_interruptions()[: story.at_once]:
            verdict, words = self._person.word(story, item)
            if "rejection_message" in words:
                words = {"message": words["rejection_message"]}
            decide: Any = getattr(self.app.inbox, verdict)
            try:
                row = await decide(item.request_id, **words, by=PERSON, digest=item.digest)
            except (Conflict, NotPending):  # it waits no longer, or asks anew: she looks again
                await asyncio.sleep(0.01)
                continue
            self._store.say(run=run, told=[[row.call, row.state, row.by]])
