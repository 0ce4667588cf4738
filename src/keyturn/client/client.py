"""The client of a server: an `App` that is elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from ..core.errors import RunStopped
from ..core.priorities import Priority
from ..journal.rows import RunRow
from ..wire import bodies
from ..wire.responses import Done, RunLine, RunNamed, RunPage, RunResult, RunSeen, RunStory
from .asks import AsyncAsks
from .inbox import AsyncInbox
from .people import AsyncPeople
from .records import AsyncAudit, AsyncInsights, AsyncPolicies
from .sending import Sender, ServerError, StreamBreaks, read

_WAIT = 25.0
_OVER = ("finished", "failed", "set_aside", "cancelled", "erased")


class AsyncClient:
    """Uses a server with the words of an `App`; `token` says who does it, and what they may.

    Errors are those that an `App` raises: `Conflict` names the winner. What fails on the way is tried again a few
    times, and is done once. `plain_http` allows a URL of another machine without TLS, where the token can be read on
    the way.

    >>> AsyncClient("https://keyturn.example", "kt_1_2")
    AsyncClient('https://keyturn.example')
    """

    def __init__(
        self, url: str, token: str, *, timeout: float = 30.0, transport: Any = None, plain_http: bool = False
    ) -> None:
        self.url = url
        self._sender = Sender(url, token, timeout=timeout, transport=transport, plain_http=plain_http)
        self.asks = AsyncAsks(self._sender)
        self.inbox = AsyncInbox(self._sender)
        self.people = AsyncPeople(self._sender)
        self.audit = AsyncAudit(self._sender)
        self.insights = AsyncInsights(self._sender)
        self.policies = AsyncPolicies(self._sender)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    def now(self) -> int:
        """Return the server's time in milliseconds, as its last answer told it."""
        return self._sender.now()

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()

    async def start(
        self,
        agent: str,
        input: str | list[Any],
        *,
        context: Any = None,
        session_id: str | None = None,
        max_turns: int | msgspec.UnsetType | None = msgspec.UNSET,
        requester: str | None = None,
        once: str | None = None,
        priority: Priority = "normal",
    ) -> str:
        """Record that a run starts, and return its id; `once` names the start, so that it is done once."""
        body = bodies.Start(
            agent=agent,
            input=input,
            context=context,
            session_id=session_id,
            max_turns=max_turns,
            requester=requester,
            priority=priority,
        )
        return (await self._sender.post("/runs", RunNamed, body, once)).run

    async def runs(self, **wanted: Any) -> Sequence[RunRow]:
        """Return rows of runs, by when they started; `wanted` are `state`, `agent`, `newest`, `limit` and `after`."""
        pages = self._sender.pages("/runs", RunPage, int(wanted.pop("limit", 100)), **wanted)
        return [each.row async for page in pages for each in page.runs]

    async def get(self, run: str) -> RunRow:
        """Return a run's row, or raise `RunMissing`."""
        return (await self._sender.get(f"/runs/{run}", RunSeen)).row

    async def story(self, run: str) -> RunStory:
        """Return how a run stands, by its log where its row was altered, and the traceback of what stopped it."""
        return await self._sender.get(f"/runs/{run}/story", RunStory)

    async def wait(self, run: str, timeout: float | None = None) -> RunRow:
        """Wait until a run is over or requires a decision; raise `TimeoutError` where that takes too long."""
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT if ends is None else min(_WAIT, ends - time.monotonic())
            row = (await self._sender.get(f"/runs/{run}", RunSeen, _WAIT, wait=round(max(left, 0), 3))).row
            if row.status in (*_OVER, "waiting"):
                return row
            if ends is not None and time.monotonic() >= ends:
                raise TimeoutError(f"run {run} was {row.status} after {timeout} s and continues: wait longer")

    async def result(self, run: str, timeout: float | None = None) -> RunResult:
        """Return what a run came to: its answer, or its pending calls; raise `RunStopped` where it was stopped."""
        row = await self.wait(run, timeout)
        if row.status in _OVER and row.status != "finished":
            raise RunStopped(run, row.status, row.error)
        return await self._sender.get(f"/runs/{run}/result", RunResult)

    async def send(self, run: str, message: str | list[Any], *, once: str | None = None) -> None:
        """Add a message that the model reads at its next turn; `once` names it, so that it is added once."""
        await self._sender.post(f"/runs/{run}/send", Done, bodies.Message(message=message), once)

    async def cancel(self, run: str, *, why: str = "") -> None:
        """Cancel a run; the outcome of a tool at work is unknown."""
        await self._sender.post(f"/runs/{run}/cancel", Done, bodies.Why(why=why))

    async def fork(self, run: str, at: int | None = None, *, once: str | None = None) -> str:
        """Start a new run from the first `at` lines of another, and return its id; `once` names the fork."""
        return (await self._sender.post(f"/runs/{run}/fork", RunNamed, bodies.Fork(at=at), once)).run

    async def resume(self, run: str, max_turns: int | None = None, *, once: str | None = None) -> None:
        """Resume a run that failed or was set aside, once under a name."""
        await self._sender.post(f"/runs/{run}/resume", Done, bodies.Resume(max_turns=max_turns), once)

    async def events(
        self, run: str, after: int = -1, *, words: bool = False, follow: bool = True
    ) -> AsyncGenerator[RunLine]:
        """Yield the lines of a run as they come, each once, over breaks of the connection, until it is over.

        With `words`, each event has rows for people; with `follow=False` the lines end with those that are there now.
        """
        breaks, told = StreamBreaks(), _Told(after)
        while True:
            lines = self._lines(run, told, {"words": words, "follow": None if follow else "false"})
            try:
                async for line in lines:
                    breaks.came()
                    yield line
                if not follow or (await self.get(run)).status in _OVER:
                    told.check()
                    return
                breaks.ended()
            except ServerError as error:
                breaks.cut(error)
            finally:
                await lines.aclose()
            await breaks.pause()

    async def _lines(self, run: str, told: _Told, asked: dict[str, Any]) -> AsyncGenerator[RunLine]:
        """Yield the lines of one stream after what was told before."""
        last, told.whole = None if told.after < 0 else str(told.after), False
        async with contextlib.aclosing(self._sender.events(f"/runs/{run}/events", last, ends=True, **asked)) as events:
            async for _, data in events:
                told.whole = not data
                if data and (line := read(data, RunLine)).line > told.after:  # each once, whatever a server sends again
                    told.after = line.line
                    yield line


@dataclass
class _Told:
    """Holds the last line that was told of a run, and whether its stream said that there were no more."""

    after: int
    whole: bool = False

    def check(self) -> None:
        """Raise `ServerError` where the stream ended in order all the same, as its server stopped."""
        if not self.whole:
            raise ServerError("the stream ended before its last line", None)
