"""Record what the model of a session says, one thing after the other: its calls, its words, and what the user said.

A call is recorded as it comes, so that it is asked about or runs while the model goes on talking; words are when they
are whole. A call is recorded as one of the agent whose turn it was made in, or not at all. What cannot be recorded as a
call is told to the model, and runs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from ..core import commands as cm
from ..core.call_ids import ROOT
from ..core.errors import Conflict, ModelBehaviorError, ToolSourceDown, UserError
from ..core.items import Item
from ..core.run import Call
from ..core.usage import Usage
from ..engine.driving.drive import Drive
from ..engine.effects.ask_model import hear
from ..models.base import ModelResponse
from .delivery import ConnectionDelivery, Send, rejection
from .model_events import RealtimeModelToolCallEvent
from .model_inputs import RealtimeModelSendEvent, RealtimeModelSendToolOutput

# So many things of a model that talks faster than a store writes; then its connection is read more slowly.
_MOST = 256
# So many calls of a model are open at most.
MOST_OPEN = 1_000

# What is no reason to end a session: the call is not taken, and the model is told.
_REFUSED = (ModelBehaviorError, UserError, ToolSourceDown)
_ODD = "The call was not understood."
_DOWN = "The call was not taken: its tools cannot be reached now. Call again later if it is still needed."

# Makes what the model is sent of words about a call that was not taken.
_Answer = Callable[[str], RealtimeModelSendEvent]


class CallNotTaken(ModelBehaviorError):
    """Raised for a call that is not recorded; `words` tell the model so, none where it waits for another result.

    >>> CallNotTaken("told twice").words
    ''
    """

    def __init__(self, message: str, words: str = "") -> None:
        super().__init__(message)
        self.words = words

    @classmethod
    def twice(cls, event: RealtimeModelToolCallEvent) -> CallNotTaken:
        """Return the error for a call that was told before."""
        return cls(f"the model told the call {event.call_id!r} of {event.name!r} again; it is one call and runs once")


class Recorder:
    """Records what is heard, in its order, from a task of its own."""

    def __init__(
        self, drive: Drive, model: str, answering: Callable[[], Send], failed: Callable[[Exception], None]
    ) -> None:
        self._drive = drive
        self._model = model
        # Returns what sends to the connection there is: the next one knows nothing of a call that was not taken.
        self._answering = answering
        self._failed = failed
        self._ended = False
        #: How many items of the conversation the model had heard when its turn began; None outside of a turn.
        self.heard: int | None = None
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
        heard, send = self.heard, self._answering()

        async def record() -> list[str]:
            try:
                self._check_new(event)
                return await self._take(item, under, heard)
            except _REFUSED as error:
                made = partial(RealtimeModelSendToolOutput, event, start_response=True)
                await self._refuse(error, made, send)
                return []

        return await self._put(record)

    def _check_new(self, event: RealtimeModelToolCallEvent) -> None:
        """Refuse a call that is open already."""
        for call in self._room(event.name):
            proposal, told = call.proposal, call.raw.get("arguments")
            if (proposal.label, proposal.name, told) == (event.call_id, event.name, event.arguments):
                raise CallNotTaken.twice(event)

    def _room(self, name: object) -> list[Call]:
        """Return the open calls of the model; refuse one more where there are too many."""
        run = self._drive.run
        calls: list[Call] = [run.calls[call] for call in run.frames[ROOT].calls] if ROOT in run.frames else []
        if len(calls) >= MOST_OPEN:
            raise CallNotTaken(
                f"the model called {name!r} while {len(calls)} of its calls are open; it was not recorded",
                "The call was not taken: too many calls are open. Wait for their results.",
            )
        return calls

    async def request(self, item: Item, under: str, connection: ConnectionDelivery) -> None:
        """Record a call that the provider makes itself once that is approved on its connection."""
        heard, send = self.heard, self._answering()
        request = str(item.get("id"))

        async def record() -> None:
            try:
                self._check_new_request(item, request, connection)
                connection.ask(request, item, under)
                try:
                    await self._take(item, under, heard)
                except BaseException:
                    del connection.asked[request]
                    raise
            except _REFUSED as error:
                await self._refuse(error, partial(rejection, item.get("id")), send)

        await self._put(record)

    def _check_new_request(self, item: Item, request: str, connection: ConnectionDelivery) -> None:
        """Refuse a request whose id names another one: an answer names no more than the id."""
        if request in connection.asked:
            raise CallNotTaken(f"the model told the request {request!r} again; it is one request and is answered once")
        if any(call.proposal.label == request for call in self._room(item.get("name"))):
            raise CallNotTaken(
                f"the model told the request {request!r} while another call with that id is open; it was not recorded",
                "The request was not taken: another call with its id is open.",
            )

    async def _take(self, item: Item, under: str, heard: int | None) -> list[str]:
        """Record a call of the agent `under`; refuse it where another agent has taken over, even while it is read."""
        self._check_at_work(item, under)
        try:
            return await self._hear([item], Usage(), heard, under)
        except Conflict:
            self._check_at_work(item, under)
            raise

    def _check_at_work(self, item: Item, under: str) -> None:
        frame = self._drive.run.frames.get(ROOT)
        if frame is not None and frame.agent != under:
            agent = self._drive.agent(under).name
            raise CallNotTaken(
                f"the model called {item.get('name')!r} of agent {agent!r}, which has handed over",
                "The call was not taken: another agent is at work now. Call again if it is still needed.",
            )

    async def _refuse(self, error: Exception, answer: _Answer, send: Send) -> None:
        """Report to the model and the user that a call was not taken; nothing of it ran."""
        self._failed(error)
        words = error.words if isinstance(error, CallNotTaken) else _DOWN if isinstance(error, ToolSourceDown) else _ODD
        if words:
            with contextlib.suppress(Exception):  # the connection is lost
                await send(answer(words))

    async def turn(self, said: list[Item], usage: Usage) -> None:
        """Record what the model said in a turn, and what that used."""
        heard = self.heard

        async def record() -> None:
            await self._hear(said, usage, heard)

        if said or usage.requests or usage.total_tokens:
            await self._put(record)

    async def user(self, item: Item) -> asyncio.Future[None]:
        """Record what the user said."""

        async def record() -> None:
            await self._drive.commit(cm.AddInput(ROOT, [item]))

        return await self._put(record)

    async def _hear(self, said: list[Item], usage: Usage, heard: int | None, by: str | None = None) -> list[str]:
        return await hear(self._drive, ROOT, ModelResponse(said, usage, None, None, self._model), heard, by)

    async def idle(self) -> None:
        """Wait until everything that was heard is recorded."""
        await asyncio.wait([await self._put(_nothing)])


async def _nothing() -> None:
    return
