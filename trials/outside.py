"""Stories of external callers: a program asks, claims what was approved, does it and reports, from wherever it stands.

Whoever plays one is the caller and the app in one process, and they end together. One that comes later knows the key
of the request and the name of its claim, and not whether what was claimed was done.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from keyturn import App, Ask, AskState
from keyturn.core.errors import Conflict, NotPending
from keyturn.core.strict import parse

from .lifecycle import PERSON, Person, Story
from .world import World

NAME = "the caller"
ROUNDS = 2_000
SECONDS = 20.0


class Caller:
    """A program outside, and the person who decides what it asks."""

    def __init__(self, app: App, story: Story, person: Person) -> None:
        self._app, self._story, self._person = app, story, person
        self._ask = story.calls
        self._claimed = False

    async def play(self) -> AskState:
        """Go on until the request has ended; how it stands then."""
        assert self._ask is not None
        for _ in range(ROUNDS):
            state = await self._app.asks.ask(self._ask, agent=self._story.name)
            if state.ended:
                await self._app.wait(state.id, SECONDS)  # the worker, too
                return state
            with suppress(Conflict, NotPending):  # it stands otherwise by now: look again
                await self._step(state)
            await asyncio.sleep(0.01)
        raise AssertionError(f"{self._story.name}: not over after {ROUNDS} rounds")

    async def _step(self, state: AskState) -> None:
        asks = self._app.asks
        if state.status == "approved":
            self._claimed = True
            await carry_out(self._app, await asks.claim(state.id, state.digest, NAME), self._person.world)
        elif state.status == "claimed":  # by a process before this one, or the answer to it was lost
            await asks.report(state.id, NAME, "unknown")
        else:
            await self._decide(state)

    async def _decide(self, state: AskState) -> None:
        for row in await self._app.inbox.list(run=state.id):
            item: Any = SimpleNamespace(kind=row.kind, request_id=row.id)
            verdict, words = self._person.word(self._story, item)
            await getattr(self._app.inbox, verdict)(row, **words, by=PERSON)


async def carry_out(app: App, state: AskState, world: World, name: str = NAME) -> None:
    """Do what was claimed, once, and report it."""
    made: Any = SimpleNamespace(run_id=state.id, idempotency_key=state.request)
    result = world.act(made, f"{state.tool} {parse(state.arguments)['n']}")
    await app.asks.report(state.id, name, "succeeded", result)


def ask(tool: str, n: int) -> Ask:
    """What a caller asks."""
    return Ask(key=f"{tool} {n}", tool=tool, arguments=f'{{"n":  {n}}}')
