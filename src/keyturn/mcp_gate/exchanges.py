"""One forwarded call while its server is at work: what the server asks meanwhile goes to the client that called.

A server of 2025-11-25 asks by `elicitation/create`, one of 2026-07-28 by a result that requires input; a client is
asked in the words of its own version. A client of 2026-07-28 answers in a new request, which names the call by a state
that is made here, good once, and only for the same call of the same account: the server's own state never leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .holding import NotForwarded

#: How many seconds a client has to answer; then the server is told that the question was cancelled.
_ANSWERED_WITHIN = 600.0
Work = Callable[["ServerExchange"], Coroutine[Any, Any, types.CallToolResult]]
Questions = dict[str, types.ElicitRequest]
Answers = dict[str, types.ElicitResult]
_UNKNOWN = "Not run: this answers no question of a pending call. Call the tool again without request_state."


class ServerExchange:
    """Holds one call at its server, and the questions that the server asks about it, one round at a time."""

    def __init__(self, call: str, work: Work, unbegun: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.call, self.unbegun = call, unbegun
        self.began = False
        self._asked = asyncio.Queue[Questions]()
        self._answers: asyncio.Future[Answers] | None = None
        self.work: asyncio.Future[types.CallToolResult] = asyncio.ensure_future(self._worked(work))

    async def _worked(self, work: Work) -> types.CallToolResult:
        self.began = True
        return await work(self)

    async def ask(self, questions: Questions) -> Answers:
        """Ask the client; a question that it does not answer in time is cancelled."""
        self._answers = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(questions)
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._answers, _ANSWERED_WITHIN)
        return answered_all(questions, "cancel")

    def answer(self, answers: Answers) -> None:
        """Give the client's answers to the server."""
        if self._answers is not None and not self._answers.done():
            self._answers.set_result(answers)

    async def next(self) -> types.CallToolResult | Questions:
        """Return what the server answers, or asks; where the client gives up, the call is given up."""
        asked = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait((self.work, asked), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.work.cancel()
            raise
        finally:
            if not asked.done():
                asked.cancel()
        return self.work.result() if self.work.done() else asked.result()


def answered_all(questions: Questions, action: Any) -> Answers:
    """Answer every question without content: "decline", or "cancel".

    >>> answered_all({}, "decline")
    {}
    """
    return {name: types.ElicitResult(action=action) for name in questions}


class Exchanges:
    """Knows the calls that are at work, and those whose client of 2026-07-28 was asked a question."""

    def __init__(self) -> None:
        self._at_work = set[ServerExchange]()
        self._suspended = dict[str, ServerExchange]()
        self._following = set[asyncio.Task[None]]()

    async def end(self) -> None:
        """Give up every call that is at work, and wait until that is reported."""
        work = [exchange.work for exchange in self._at_work]
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await asyncio.gather(*self._following, return_exceptions=True)

    def follow(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do what follows where a client gives a call up; the end of the gate waits for it."""
        task = asyncio.ensure_future(work)
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return task

    async def begun(
        self, context: Any, call: str, work: Work, unbegun: Callable[[], Coroutine[Any, Any, None]]
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Forward a call, and return its result or a question to its client.

        `unbegun` follows where the client gives the call up before its first step.
        """
        exchange = ServerExchange(call, work, unbegun)
        self._at_work.add(exchange)
        exchange.work.add_done_callback(partial(self._ended, exchange))
        return await self._outcome(context, exchange)

    def _ended(self, exchange: ServerExchange, work: asyncio.Future[types.CallToolResult]) -> None:
        self._at_work.discard(exchange)
        if not exchange.began:
            self.follow(exchange.unbegun())
        elif not work.cancelled():
            work.exception()  # of a call whose client never answered, which no other code reads

    async def resumed(
        self, context: Any, call: str, state: str, given: types.InputResponses | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Go on with a call whose client answers; any other state, or one that was used, answers nothing."""
        exchange = self._suspended.get(state)
        if exchange is None or exchange.call != call:
            raise NotForwarded(_UNKNOWN)
        del self._suspended[state]
        exchange.answer({name: each for name, each in (given or {}).items() if isinstance(each, types.ElicitResult)})
        return await self._outcome(context, exchange)

    async def _outcome(
        self, context: Any, exchange: ServerExchange
    ) -> types.CallToolResult | types.InputRequiredResult:
        while not isinstance(made := await exchange.next(), types.CallToolResult):
            if not _may_be_asked(context):
                exchange.answer(answered_all(made, "decline"))
            elif context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return types.InputRequiredResult(input_requests={**made}, request_state=self._state(exchange))
            else:
                exchange.answer({name: await _elicited(context, each) for name, each in made.items()})
        return made

    def _state(self, exchange: ServerExchange) -> str:
        """Return the state by which a client names the call whose question it answers."""
        state = secrets.token_urlsafe(32)
        self._suspended[state] = exchange
        asyncio.get_running_loop().call_later(_ANSWERED_WITHIN, self._suspended.pop, state, None)
        return state

    async def elicited(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a server that asks by itself: it does not say within which call, so that one alone is at work."""
        if len(self._at_work) != 1:
            return types.ElicitResult(action="decline")
        [exchange] = self._at_work
        answers = await exchange.ask({"question": types.ElicitRequest(params=params)})
        return answers.get("question", types.ElicitResult(action="cancel"))


def _may_be_asked(context: Any) -> bool:
    """Return whether the client declares that its user can be asked."""
    capabilities: types.ClientCapabilities | None = context.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


async def _elicited(context: Any, question: types.ElicitRequest) -> types.ElicitResult:
    """Ask the user of a client of 2025-11-25."""
    params = question.params
    if isinstance(params, types.ElicitRequestURLParams):
        return await context.session.elicit_url(
            params.message, params.url, params.elicitation_id, related_request_id=context.request_id
        )
    return await context.session.elicit_form(
        params.message, params.requested_schema, related_request_id=context.request_id
    )
