"""Track the open tool calls of a connection, the questions asked within them, and outcomes without a result.

A server of the older protocol asks a person while its call stands open, and does not say of which call. What it asks is
of the one call that stands open on its connection: a call beside another one has a connection of its own, once its
server asks. Such a call is parked by a token until a person has answered, and is gone with the process. Nothing here
knows what is asked.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class ServerQuestion:
    """Holds what a server asks within a call, and the future that awaits the answer."""

    params: Any
    answer: asyncio.Future[Any]


@dataclass(eq=False)
class OpenCall:
    """Tracks a call that has not ended; its server asks one thing after the other."""

    task: asyncio.Task[Any]
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    question: ServerQuestion | None = None


@dataclass(frozen=True)
class Parked:
    """Identifies an open call that a person has to answer."""

    token: str
    params: Any


def _nothing() -> None:
    return


class ParkedCalls:
    """Holds the calls of one server that wait for people, on whichever of its connections."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[OpenCall, OpenCalls]] = {}
        #: Is called when a call has ended on any of the connections.
        self.ended: Callable[[], None] = _nothing
        #: Whether the server asks questions within calls.
        self.asks = False
        #: How many questions a callback is about to answer.
        self.answering = 0

    def park(self, call: OpenCall, calls: OpenCalls, question: ServerQuestion) -> Parked:
        """Keep a call until its question is answered."""
        token = secrets.token_hex(16)
        self._calls[token] = call, calls
        return Parked(token, question.params)

    def give_way(self) -> asyncio.Task[Any] | None:
        """Give up the call that waits longest; return what ends with it."""
        if not self._calls:
            return None
        call, _calls = self._calls.pop(next(iter(self._calls)))
        call.task.cancel()
        return call.task

    async def go_on(self, token: str, answer: object, seconds: float | None) -> Any:
        """Answer a parked call and await it further; raise `Lost` where it is gone."""
        call, calls = self._calls.pop(token, (None, None))
        question = None if call is None else call.question
        if call is None or calls is None or question is None or question.answer.done() or call.task.done():
            raise Lost("the call was open in a process or on a connection that is gone")
        call.question = None
        call.asked.clear()
        question.answer.set_result(answer)
        return await calls.until(call, seconds)

    def drop(self) -> None:
        """Forget all parked calls."""
        self._calls.clear()


class OpenCalls:
    """Runs the open calls of one connection."""

    def __init__(self, parked: ParkedCalls) -> None:
        self._parked = parked
        self._open: set[OpenCall] = set()
        self._changed = asyncio.Event()
        self._unclear = False
        # Whether a call was given up without an answer, which its server may still carry out and ask about.
        self._given_up = False
        # How many calls are about to begin here.
        self._taken = 0

    @property
    def free(self) -> bool:
        """Return whether no call stands open here, or is about to."""
        return not self._open and not self._taken

    @property
    def ambiguous(self) -> bool:
        """Return whether the connection is to be replaced: a question may be of a call that was given up."""
        return self._given_up and self._parked.asks and not self._open

    def take(self) -> None:
        """Note that a call is about to begin here."""
        self._taken += 1

    def let_go(self) -> None:
        """Note that it has begun, or does not."""
        self._taken -= 1

    async def run(self, work: Coroutine[Any, Any, Any], seconds: float | None) -> Any:
        """Await the call's result, or return `Parked`; raise `TimeoutError` where it took too long."""
        call = OpenCall(asyncio.ensure_future(work))
        self._open.add(call)
        call.task.add_done_callback(lambda _task: self._ended(call))
        return await self.until(call, seconds)

    async def ask(self, params: object) -> Any:
        """Pass a server's question to whoever made the call; None where it is not clear which call that is."""
        self._parked.asks = True
        call = await self._whose()
        if call is None:
            return None
        async with call.asking:
            call.question = question = ServerQuestion(params, asyncio.get_running_loop().create_future())
            call.asked.set()
            return await question.answer

    def drop(self) -> None:
        """Cancel all open calls."""
        for call in list(self._open):
            call.task.cancel()

    async def until(self, call: OpenCall, seconds: float | None) -> Any:
        """Await an open call until it ends or asks."""
        question = asyncio.ensure_future(call.asked.wait())
        try:
            while True:
                both: set[asyncio.Future[Any]] = {call.task, question}
                done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if done or not self._parked.answering:  # the time that a person takes to answer is not the server's
                    break
        except asyncio.CancelledError:
            call.task.cancel()
            raise
        finally:
            question.cancel()
        if call.task in done:
            if call.task.cancelled():
                raise Lost("the connection was closed")
            return call.task.result()
        if call.question is not None:
            return self._parked.park(call, self, call.question)
        call.task.cancel()
        raise TimeoutError

    async def _whose(self) -> OpenCall | None:
        """Find the one call that can be asking.

        With several open, as until its server asks for the first time, wait for the others to end: guessing would
        mislead. A call that was given up may ask as well, and what it asks is of no other call.
        """
        if self._unclear:
            return None
        self._unclear = True
        try:
            while len(self._open) > 1:
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._unclear = False
        return None if self._given_up or not self._open else next(iter(self._open))

    def _ended(self, call: OpenCall) -> None:
        self._open.discard(call)
        self._changed.set()
        # A parked call may end when nobody looks.
        unanswered = call.task.cancelled() or isinstance(call.task.exception(), Lost)
        self._given_up = self._given_up or unanswered
        self._parked.ended()


@dataclass(frozen=True)
class InputRequired:
    """Holds the questions that people must answer first, by key, and the server's state to send back."""

    requests: dict[str, Any]
    state: str | None


class CallRefused(Exception):
    """Raised where the server answered that it refuses the request: nothing ran."""


class Unsent(Exception):
    """Raised where the request reached nobody: nothing ran, and it may be sent again."""


class Unreached(Unsent):
    """Raised where there is no connection, and none could be opened."""


class Occupied(Exception):
    """Raised where a call would share a connection on which another one stands open that asks: nothing was sent."""


class Lost(Exception):
    """Raised where the request was sent, and its outcome is unknown."""
