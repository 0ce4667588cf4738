"""Mirror the interrupts of a graph's threads in the inbox, and resume each thread once with what was decided.

A thread goes on when all of its open interrupts are decided. Its approved calls are claimed first, in their order, so
that of several processes one resumes it; where none is approved, one claims a call that passes the decisions on. What
was claimed and not reported is in doubt: nothing of that thread is resumed until a person said what became of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from ..asks.ask import RESUME, Ask, AskState
from ..core.approval import Approval
from ..core.errors import Conflict, KeyturnError
from ..core.records import BY_GRANT
from ..gating.claims import Attempt, outcome_of, renewed, reported
from ..gating.door import AskPlace
from ..gating.errors import NOT_RUN, GatedCallError, error_of
from .line import HasAsks, InboxLine
from .program import Graph, PausedThread, Program, name_of
from .shapes import NotAccepted, PausedCall, Shape

Thread = str | Mapping[str, Any]

_log = logging.getLogger("keyturn.langgraph")
_SCREENED = 30.0
_NOT_RESUMED = "keyturn: the thread was not resumed, and the call did not run"
_GONE = "the thread no longer waits for it"
#: The states in which nothing is resumed.
_OPEN = ("pending", "claimed", "in_doubt", "failed")
#: The states in which a question has no answer.
_UNANSWERED = ("rejected", "expired", "not_run")


class Mirror:
    """Shows what the threads of a LangGraph program wait for in a Keyturn inbox, and resumes them with the decisions.

    `inbox` is the URL of a server (with a `token` that has the scope `ask`), a journal such as
    `sqlite:///approvals.db`, an `App`, or an `AsyncClient`; without it the environment says where, as for `@gated`.
    `approval` states the terms, `requester` for whom the program acts. Any number of mirrors may serve one program.
    """

    def __init__(
        self,
        graph: Graph,
        inbox: str | HasAsks | None = None,
        *,
        token: str | None = None,
        approval: Approval | None = None,
        requester: str | None = None,
    ) -> None:
        self._program = Program(graph)
        self._line = InboxLine(inbox, token)
        self._approval, self._requester = approval, requester
        self._looks = itertools.count()
        self._asked: dict[str, dict[str, int]] = {}  # by thread, open requests with the last look that found each

    async def ask(self, thread: Thread) -> list[AskState]:
        """Ask for what a thread is paused at, and return how its requests stand; the same pause asks once.

        Requests of this mirror that the thread no longer waits for are withdrawn.
        """
        look, paused = next(self._looks), await self._program.paused(thread)
        if paused is None:
            return []
        return [state for held in await self._requests(paused, look) for state in held.states]

    async def resume(self, thread: Thread) -> Any:
        """Resume a thread with what was decided, and return what the graph returns; None if it is not paused.

        Raises `CallWaiting` while a decision is pending, `CallClaimed` where another process resumes the thread,
        `CallInDoubt` where one began to and its outcome is unknown, `CallFailed` where the graph failed then, and
        `CallDenied` or `CallExpired` where a question was left without an answer.
        """
        look, paused = next(self._looks), await self._program.paused(thread)
        if paused is None:
            await self._withdraw(name_of(thread), look, [])
            return None
        held = await self._requests(paused, look)
        for state in (state for each in held for state in each.states):
            if state.status in _OPEN:
                raise error_of(state)
        answers = {each.interrupt: each.answer() for each in held}
        claims = await self._claims(paused, [state for each in held for state in each.states])
        return await self._resumed(thread, paused, answers, claims)

    async def serve(
        self,
        threads: Iterable[Thread] | Callable[[], Awaitable[Iterable[Thread]]] | None = None,
        *,
        every: float = 2.0,
    ) -> None:
        """Ask and resume until this is cancelled, looking at each thread every so many seconds.

        `threads` are the threads to look at, or an async function that returns them: a query of your own table. Without
        them these are the threads that the checkpointer has at the beginning, and those that this mirror asked for.
        """
        found: Iterable[Thread] = await self._program.threads() if threads is None else ()
        busy: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                for thread in await threads() if callable(threads) else [*(threads or found), *self._asked]:
                    name = name_of(thread)
                    busy[name] = _at_work(busy.get(name)) or asyncio.create_task(self._served(thread))
                await asyncio.sleep(every)
        finally:
            await _ended(busy.values())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close the connection, or the journal, that was opened here; the next call opens it anew."""
        await asyncio.to_thread(self._line.close)

    async def _served(self, thread: Thread) -> None:
        try:
            await self.resume(thread)
        except (GatedCallError, Conflict) as error:  # it is pending, or another process has it
            _log.debug("thread %s was not resumed: %s", thread, error)
        except KeyturnError as error:
            _log.warning("thread %s was not resumed: %s", thread, error)
        except Exception:
            _log.exception("thread %s was not resumed", thread)

    # What is asked ----------------------------------------------------------------------------------------------

    async def _requests(self, paused: PausedThread, look: int) -> list[_Held]:
        held: list[_Held] = []
        for interrupt, shape in paused.interrupts:
            states: list[AskState] = []
            for index, call in enumerate(shape.calls):
                made = self._ask(paused.thread, call, f"{interrupt} {index}")
                states.append(await self._line.do(lambda asks, each=(made, shape, call): self._stands(asks, *each)))
            held.append(_Held(interrupt, shape, states))
        await self._withdraw(paused.thread, look, [state for each in held for state in each.states])
        return held

    async def _stands(self, asks: AskPlace, first: Ask, shape: Shape, call: PausedCall) -> AskState:
        """Return how the newest request for a call stands: what came to nothing is asked for again."""
        attempt, problem = 1, ""
        while True:
            reasoning = "\n\n".join(words for words in (first.reasoning, problem) if words)
            made = replace(first, key=f"{first.key} {attempt}", reasoning=reasoning)
            state = await asks.ask(made, requester=self._requester)
            if not (state.status == "withdrawn" or _did_not_run(state)):
                problem = _problem(shape, call, state)
                if not problem or _by_a_rule(state):  # which would decide the next request in the same way
                    return state
                if state.status == "approved":
                    await asks.withdraw(state.id, why=problem)
            attempt += 1

    def _ask(self, thread: str, call: PausedCall, place: str) -> Ask:
        return Ask(
            key=f"langgraph {_short(f'{thread} {place} {call!r}')}",
            tool=call.tool,
            arguments=call.arguments,
            server=self._program.name,
            schema=None if call.schema is None or not call.editable else dict(call.schema),
            reasoning=call.words,
            context={"framework": "LangGraph", "session": thread},
            terms=self._approval,
            editable=call.editable,
        )

    async def _withdraw(self, thread: str, look: int, now: list[AskState]) -> None:
        """Withdraw what this mirror asked for and a thread no longer waits for; a look knows nothing of later ones."""
        known = self._asked.setdefault(thread, {})
        for state in now:
            known[state.id] = max(look, known.get(state.id, look))
        gone = [id for id, last in known.items() if last < look]
        for id in gone:
            with contextlib.suppress(Conflict):  # it was claimed, or is over
                await self._line.do(lambda asks, gone=id: asks.withdraw(gone, why=_GONE))
        for id in (*gone, *(state.id for state in now if state.ended)):
            known.pop(id, None)
        if not known and self._asked.get(thread) is known:
            del self._asked[thread]

    # What is resumed --------------------------------------------------------------------------------------------

    async def _claims(self, paused: PausedThread, states: list[AskState]) -> list[_Claim]:
        """Claim what is to run, in its order; where nothing is, a call that passes the decisions on."""
        approved = [state for state in states if state.status == "approved"]
        if not approved:
            approved = [await self._line.do(lambda asks: self._delivery(asks, paused, states))]
        made: list[_Claim] = []
        for state in approved:
            attempt = Attempt()
            try:
                await self._line.do(lambda asks, each=(attempt, state): each[0].claimed(asks, each[1]))
            except BaseException:
                made += [] if attempt.claim is None else [_Claim(state, attempt.name)]
                await asyncio.shield(self._report(made, "failed", _NOT_RESUMED))
                raise
            made.append(_Claim(state, attempt.name))
        return made

    async def _delivery(self, asks: AskPlace, paused: PausedThread, states: list[AskState]) -> AskState:
        ids = tuple(state.id for state in states)
        key = f"langgraph {RESUME} {_short(' '.join(ids))}"
        arguments = msgspec.json.encode({"thread": paused.thread, "requests": ids}).decode()
        attempt = 1
        while True:
            made = Ask(key=f"{key} {attempt}", tool=RESUME, arguments=arguments, delivers=ids)
            state = await asks.ask(made, requester=self._requester)
            if state.status == "pending":
                state = await asks.wait(state.id, _SCREENED)
            if state.status == "approved":
                return state
            if not (state.status in ("withdrawn", "not_run") or _did_not_run(state)):
                raise error_of(state)
            attempt += 1

    async def _resumed(
        self, thread: Thread, paused: PausedThread, answers: dict[str, Any], claims: list[_Claim]
    ) -> Any:
        """Look once more whether the thread waits for what was decided, and run it on under the claims."""
        beats = [self._line.begin(lambda asks, each=each: renewed(asks, each.state.id, each.name)) for each in claims]
        try:
            try:
                now = await self._looked_again(thread)
            except BaseException:  # it was cancelled, or the checkpointer is away
                await asyncio.shield(self._report(claims, "failed", _NOT_RESUMED))
                raise
            if now != paused:
                await self._report(claims, "failed", _NOT_RESUMED)
                raise Conflict(f"thread {paused.thread!r} changed: what was approved is not what it waits for now")
            return await self._run(thread, answers, claims)
        finally:
            for beat in beats:
                beat.cancel()

    async def _looked_again(self, thread: Thread) -> PausedThread | None:
        try:
            return await self._program.paused(thread)
        except Conflict:
            return None

    async def _run(self, thread: Thread, answers: dict[str, Any], claims: list[_Claim]) -> Any:
        try:
            result = await self._program.resume(thread, answers)
        except BaseException as error:
            await asyncio.shield(self._report(claims, *outcome_of(error)))
            raise
        await asyncio.shield(self._report(claims, "succeeded", None))
        return result

    async def _report(self, claims: list[_Claim], outcome: Any, result: Any) -> None:
        for state, name in claims:
            await self._line.do(lambda asks, each=(state, name): reported(asks, *each, outcome, result))


class _Claim(NamedTuple):
    """Holds a request that is claimed here, and the name of the claim."""

    state: AskState
    name: str


class _Held(NamedTuple):
    """Holds an interrupt, what it asks, and how its requests stand."""

    interrupt: str
    shape: Shape
    states: list[AskState]

    def answer(self) -> Any:
        """Return what it is resumed with; a question that was rejected has no answer."""
        for state in self.states:
            if self.shape.asks_for_value and state.status in _UNANSWERED:
                raise error_of(state)
        try:
            return self.shape.answer(self.states)
        except NotAccepted as error:
            raise Conflict(f"a policy or a grant decided a call of this thread. {error}") from None


def _problem(shape: Shape, call: PausedCall, state: AskState) -> str:
    """Return why a program does not accept what was decided, "" where it does."""
    if state.status in _OPEN or (shape.asks_for_value and state.status in _UNANSWERED):
        return ""
    try:
        shape.write(call, state)
    except NotAccepted as error:
        return str(error)
    return ""


def _by_a_rule(state: AskState) -> bool:
    """Return whether a policy or a grant decided, and no user was asked."""
    by_none = state.decided_at is None or state.decided_by.startswith(BY_GRANT)
    return by_none and state.status in ("approved", "rejected")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _did_not_run(state: AskState) -> bool:
    return state.status == "failed" and state.result in (_NOT_RESUMED, NOT_RUN)


def _at_work(task: asyncio.Task[None] | None) -> asyncio.Task[None] | None:
    """Return a task that is at work still."""
    return None if task is None or task.done() else task


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
