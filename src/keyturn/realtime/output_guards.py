"""Run output guardrails on what the model is saying: each time so much more of it is there, and when it is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..agents.context import RunContextWrapper
from ..agents.guardrail import OutputGuardrail, OutputGuardrailResult
from ..engine.logger import error_words, logger

Tripped = Callable[[list[OutputGuardrailResult], str, str | None], Awaitable[None]]


class OutputGuards:
    """Looks at one response after the other; the first guardrail that trips stops a response, once."""

    def __init__(self, context: RunContextWrapper[Any], every: int, tripped: Tripped) -> None:
        self._context = context
        self._every = every
        self._tripped = tripped
        self._looked: dict[str, int] = {}
        self._stopped: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def said(self, agent: Any, guards: Sequence[OutputGuardrail[Any]], item_id: str, text: str, response: str) -> None:
        """Look at what was said so far, where enough of it is new."""
        if not guards or response in self._stopped:
            return
        turn = len(text) // self._every if self._every > 0 else len(text)
        if turn > self._looked.get(item_id, 0):
            self._looked[item_id] = turn
            self._look(agent, guards, text, response)

    def whole(self, agent: Any, guards: Sequence[OutputGuardrail[Any]], text: str, response: str) -> None:
        """Look at what was said, now that it is whole."""
        if guards and text and response not in self._stopped:
            self._look(agent, guards, text, response)

    def ended(self) -> None:
        """Forget a turn that has ended."""
        self._looked.clear()

    def _look(self, agent: Any, guards: Sequence[OutputGuardrail[Any]], text: str, response: str) -> None:
        task = asyncio.ensure_future(self._run(agent, guards, text, response))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, agent: Any, guards: Sequence[OutputGuardrail[Any]], text: str, response: str) -> None:
        tripped: list[OutputGuardrailResult] = []
        for guard in guards:
            try:
                result = await guard.run(self._context, agent, text)
            except Exception as error:  # what cannot be judged does not stop a conversation, and is not silent
                logger.warning("output guardrail %r failed on what was said: %s", guard.get_name(), error_words(error))
                continue
            if result.output.tripwire_triggered:
                tripped.append(result)
        if tripped and response not in self._stopped:
            self._stopped.add(response)
            await self._tripped(tripped, text, response or None)

    def close(self) -> None:
        """Stop looking."""
        for task in self._tasks:
            task.cancel()
