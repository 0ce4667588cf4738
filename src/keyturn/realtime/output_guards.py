"""Run output guardrails on what the model is saying: each time so much more of it is there, and when it is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from ..agents.context import RunContextWrapper
from ..agents.guardrail import OutputGuardrail, OutputGuardrailResult
from ..engine.logger import error_words, logger
from ..support.user_code import answer_of
from .turns import Turn

# So many looks at once; what is said meanwhile is looked at next, all of it.
_AT_ONCE = 8

# Each guardrail with the agent that it looks for.
Judges = Sequence[tuple[Any, OutputGuardrail[Any]]]
Look = Callable[[], Awaitable[None]]
Tripped = Callable[[list[OutputGuardrailResult], str, str | None], Awaitable[None]]


class OutputGuards:
    """Looks at one turn after the other; the first guardrail that trips stops a turn, once."""

    def __init__(
        self, context: RunContextWrapper[Any], every: int, tripped: Tripped, failed: Callable[[Exception], None]
    ) -> None:
        self._context = context
        self._every = every
        self._tripped = tripped
        self._failed = failed
        self._looked: dict[str, int] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        # What is to be looked at once others have been: the newest of each message, and all that are whole.
        self._next: dict[str, Look] = {}
        self._closed = False

    def said(self, turn: Turn, judges: Judges, item_id: str, text: str) -> None:
        """Look at what was said so far, where enough of it is new."""
        if not judges or turn.stopped:
            return
        count = len(text) // self._every if self._every > 0 else len(text)
        if count > self._looked.get(item_id, 0):
            self._looked[item_id] = count
            self._look(f"said {item_id}", partial(self._run, turn, judges, text))

    def whole(self, turn: Turn, judges: Judges, text: str) -> None:
        """Look at what was said, now that it is whole."""
        if judges and text and not turn.stopped:
            self._count += 1
            self._look(f"whole {self._count}", partial(self._run, turn, judges, text))

    def ended(self) -> None:
        """Forget a turn that has ended."""
        self._looked.clear()

    def _look(self, what: str, look: Look) -> None:
        if self._closed:
            return
        self._next[what] = look
        if len(self._tasks) < _AT_ONCE:
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while self._next:
            await self._next.pop(next(iter(self._next)))()

    async def _run(self, turn: Turn, judges: Judges, text: str) -> None:
        if turn.stopped:
            return
        tripped: list[OutputGuardrailResult] = []
        for agent, guard in judges:
            try:
                result = await answer_of(guard.run, self._context, agent, text)
            except Exception as error:  # what cannot be judged does not stop a conversation, and is not silent
                logger.warning("output guardrail %r failed on what was said: %s", guard.get_name(), error_words(error))
                self._failed(error)
                continue
            if result.output.tripwire_triggered:
                tripped.append(result)
        if tripped and not turn.stopped:
            turn.stopped = True
            await self._tripped(tripped, text, turn.response or None)

    def close(self) -> None:
        """Stop looking."""
        self._closed = True
        self._next.clear()
        for task in self._tasks:
            task.cancel()
