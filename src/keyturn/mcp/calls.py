"""Track the open tool calls of a server, the questions asked within them, and outcomes without a result.

A server of the older protocol asks a person while its call stands open: such a call is parked here by a token until
somebody has answered, and is gone with the process. Nothing here knows what is asked.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from .bounds import PARKED_CALLS


@dataclass(eq=False)
class ServerQuestion:
    """Holds what a server asks within a call, and the future that awaits the answer."""

    params: Any
    answer: asyncio.Future[Any]


@dataclass(eq=False)
class OpenCall:
    """Tracks a call that has not ended."""

    task: asyncio.Task[Any]
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    question: ServerQuestion | None = None


@dataclass(frozen=True)
class Parked:
    """Identifies an open call that waits for people to answer."""

    token: str
    params: Any


class OpenCalls:
    """Runs and parks the open calls of one server."""

    def __init__(self) -> None:
        self._open: set[OpenCall] = set()
        self._parked: dict[str, OpenCall] = {}
        self._changed = asyncio.Event()
        self._unclear = False
        # Whether a call was given up without an answer, which its server may still carry out and ask about; and whether
        # the server asks questions within calls.
        self._given_up = self._asks = False
        self.answering = 0

    @property
    def ambiguous(self) -> bool:
        """Return whether the connection is to be replaced: a question may be of a call that was given up."""
        return self._given_up and self._asks and not self._open

    def reconnected(self) -> None:
        """Note that the connection is a new one: nothing of the calls before is asked on it."""
        self._given_up = self._asks = False

    async def run(self, work: Coroutine[Any, Any, Any], seconds: float | None) -> Any:
        """Await the call's result, or return `Parked`; raise `TimeoutError` where it took too long."""
        call = OpenCall(asyncio.ensure_future(work))
        self._open.add(call)
        call.task.add_done_callback(lambda _task: self._ended(call))
        return await self._until(call, seconds)

    async def go_on(self, token: str, answer: object, seconds: float | None) -> Any:
        """Answer a parked call and await it further; raise `Lost` where it is gone."""
        call = self._parked.pop(token, None)
        question = None if call is None else call.question
        if call is None or question is None or question.answer.done() or call.task.done():
            raise Lost("the call was open in a process or on a connection that is gone")
        call.question = None
        call.asked.clear()
        question.answer.set_result(answer)
        return await self._until(call, seconds)

    async def ask(self, params: object) -> Any:
        """Pass a server's question to whoever made the call; None where it is not clear which call that is."""
        self._asks = True
        call = await self._whose()
        if call is None:
            return None
        call.question = ServerQuestion(params, asyncio.get_running_loop().create_future())
        call.asked.set()
        self._changed.set()
        return await call.question.answer

    def drop(self) -> None:
        """Cancel and forget all open calls."""
        for call in list(self._open):
            call.task.cancel()
        self._parked.clear()

    async def _until(self, call: OpenCall, seconds: float | None) -> Any:
        question = asyncio.ensure_future(call.asked.wait())
        try:
            while True:
                both: set[asyncio.Future[Any]] = {call.task, question}
                done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if done or not self.answering:  # the time that somebody takes to answer is not the server's
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
            return self._park(call, call.question)
        call.task.cancel()
        raise TimeoutError

    def _park(self, call: OpenCall, question: ServerQuestion) -> Parked:
        while len(self._parked) >= PARKED_CALLS:
            self._parked.pop(next(iter(self._parked))).task.cancel()
        token = secrets.token_hex(16)
        self._parked[token] = call
        return Parked(token, question.params)

    async def _whose(self) -> OpenCall | None:
        """Find the one call that can be asking.

        With several at work, wait for the others to end: guessing would mislead. A call that was given up may ask as
        well, and what it asks is of no other call.
        """
        if self._unclear:
            return None
        self._unclear = True
        try:
            while len(working := [call for call in self._open if call.question is None]) > 1:
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._unclear = False
        return None if self._given_up or not working else working[0]

    def _ended(self, call: OpenCall) -> None:
        self._open.discard(call)
        self._changed.set()
        # A parked call may end when nobody looks.
        unanswered = call.task.cancelled() or isinstance(call.task.exception(), Lost)
        self._given_up = self._given_up or unanswered


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


class Lost(Exception):
    """Raised where the request was sent, and its outcome is unknown."""
