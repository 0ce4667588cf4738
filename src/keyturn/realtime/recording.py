"""Record what the model of a session says, one thing after the other: its calls, its words, and what the user said.

A call is recorded as it comes, so that it is asked about or runs while the model goes on talking; words are when they
are whole. What cannot be recorded as a call is told to the model, and runs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..core import commands as cm
from ..core.call_ids import ROOT
from ..core.errors import ModelBehaviorError, UserError
from ..core.items import Item
from ..core.run import Call
from ..core.usage import Usage
from ..engine.driving.drive import Drive
from ..engine.effects.ask_model import hear
from ..models.base import ModelResponse
from .model_events import RealtimeModelToolCallEvent

# So many things of a model that talks faster than a store writes; then its connection is read more slowly.
_MOST = 256
# So many calls of a model are open at most.
MOST_OPEN = 1_000


class NotTaken(ModelBehaviorError):
    """Raised for a call that is not recorded; `words` tell the model so, none where it waits for another result.

    >>> NotTaken("told twice").words
    ''
    """

    def __init__(self, message: str, words: str = "") -> None:
        super().__init__(message)
        self.words = words

    @classmethod
    def twice(cls, event: RealtimeModelToolCallEvent) -> NotTaken:
        """Return the error for a call that was told before."""
        return cls(f"the model told the call {event.call_id!r} of {event.name!r} again; it is one call and runs once")


class Recorder:
    """Records what is heard, in its order, from a task of its own."""

    def __init__(
        self, drive: Drive, model: str, refused: Callable[[RealtimeModelToolCallEvent, Exception], Any]
    ) -> None:
        self._drive = drive
        self._model = model
        self._refused = refused
        self._ended = False
        self._heard: asyncio.Queue[tuple[Callable[[], Any], asyncio.Future[Any]]] = asyncio.Queue(_MOST)

    async def run(self) -> None:
        """Record whatever is heard; raise what no session survives."""
        done: asyncio.Future[Any] | None = None
        try:
            while True:
                record, done = await self._heard.get()
                done.set_result(await record())
        finally:
            self._ended = True
            while done is not None:  # whoever waits does not wait for ever
                if not done.done():
                    done.set_result([])
                done = None if self._heard.empty() else self._heard.get_nowait()[1]

    async def _put(self, record: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._ended:  # its session is about to end, and says why
            done.set_result([])
        else:
            await self._heard.put((record, done))
            if self._ended and not done.done():  # it ended while the queue was full
                done.set_result([])
        return done

    async def call(self, event: RealtimeModelToolCallEvent, under: str) -> asyncio.Future[list[str]]:
        """Record a call of the model, which had the tools of the agent `under`; the future has the proposals' ids."""
        item: Item = {"type": "function_call", "call_id": event.call_id, "name": event.name}
        item |= {"arguments": event.arguments} | ({"id": event.id} if event.id else {})

        async def record() -> list[str]:
            try:
                self._check_new(event)
                await self._check_tool(item, under)
                return await self._hear([item], Usage())
            except (ModelBehaviorError, UserError) as error:
                await self._refused(event, error)
                return []

        return await self._put(record)

    def _check_new(self, event: RealtimeModelToolCallEvent) -> None:
        """Refuse a call that is open already."""
        run = self._drive.run
        calls: list[Call] = [run.calls[call] for call in run.frames[ROOT].calls] if ROOT in run.frames else []
        if len(calls) >= MOST_OPEN:
            raise NotTaken(
                f"the model called {event.name!r} while {len(calls)} of its calls are open; it was not recorded",
                "The call was not taken: too many calls are open. Wait for their results.",
            )
        for call in calls:
            proposal, told = call.proposal, call.raw.get("arguments")
            if (proposal.label, proposal.name, told) == (event.call_id, event.name, event.arguments):
                raise NotTaken.twice(event)

    async def _check_tool(self, item: Item, under: str) -> None:
        """Refuse a call of a tool that the agent at work now does not have, or has another of that name."""
        frame = self._drive.run.frames.get(ROOT)
        if frame is None or frame.agent == under:
            return
        meant = (await self._drive.toolset(frame, of=under)).find(item)
        if meant is not (await self._drive.toolset(frame)).find(item):
            raise NotTaken(
                f"the model called {item['name']!r} of agent {self._drive.agent(under).name!r}, which has handed over",
                "The call was not taken: another agent is at work now. Call again if it is still needed.",
            )

    async def item(self, item: Item) -> None:
        """Record an item of the model that is a call in the provider's own shape."""

        async def record() -> None:
            try:
                await self._hear([item], Usage())
            except (ModelBehaviorError, UserError) as error:
                call = RealtimeModelToolCallEvent(str(item.get("name")), str(item.get("id")), "")
                await self._refused(call, error)

        await self._put(record)

    async def turn(self, said: list[Item], usage: Usage) -> None:
        """Record what the model said in a turn, and what that used."""

        async def record() -> None:
            await self._hear(said, usage)

        if said or usage.requests or usage.total_tokens:
            await self._put(record)

    async def user(self, item: Item) -> asyncio.Future[None]:
        """Record what the user said."""

        async def record() -> None:
            await self._drive.commit(cm.AddInput(ROOT, [item]))

        return await self._put(record)

    async def _hear(self, said: list[Item], usage: Usage) -> list[str]:
        return await hear(self._drive, ROOT, ModelResponse(said, usage, None, None, self._model))

    async def idle(self) -> None:
        """Wait until everything that was heard is recorded."""
        await asyncio.wait([await self._put(_nothing)])


async def _nothing() -> None:
    return
