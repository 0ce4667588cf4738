"""How tests tell people: a channel that writes down what it is given, requests that wait, a dispatcher with a clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from keyturn import Agent, Approval, MemoryJournal, Runner, StorageError, function_tool
from keyturn.channels.base import Channel, Message, Recipient
from keyturn.channels.dispatcher import Dispatcher
from keyturn.channels.plan import Attempts, ChannelPlan
from keyturn.journal.base import Store
from keyturn.journal.rows import DeliveryQuery, Notice, Query, RequestRow
from keyturn.testing import ScriptedModel, function_call

QUICK = Attempts(most=3, first=0.02, longest=0.05)
Sends = Callable[[Message], Any]


class Recorder(Channel):
    """Writes down each message; `answers` may raise, or wait, first."""

    def __init__(self, name: str = "mail", answers: Sends | None = None, **options: Any) -> None:
        self.name, self.told, self.tried = name, list[Message](), list[Message]()
        self._answers = answers
        for option, value in options.items():
            setattr(self, option, value)

    async def send(self, message: Message) -> None:
        self.tried.append(message)
        if self._answers is not None:
            answer = self._answers(message)
            if asyncio.iscoroutine(answer):
                await answer
        self.told.append(message)

    @property
    def topics(self) -> list[str]:
        return [message.topic.removeprefix("request.") for message in self.told]


class Ledger(Recorder):
    """A channel that keeps books: it is told of everything."""

    every_event = True


def desk(*payees: str, terms: Approval | None = None) -> Agent[Any]:
    """An agent that wants to pay, all payees at once."""

    @function_tool(approval=terms or Approval())
    def pay(to: str) -> str:
        """Pay somebody."""
        return f"paid {to}"

    calls = [function_call("pay", {"to": to}) for to in payees or ("ada",)]
    return Agent("desk", model=ScriptedModel([calls, "done"]), tools=[pay])


async def asked(journal: Store, *payees: str, terms: Approval | None = None) -> list[RequestRow]:
    """Start a run that waits, and give back its requests."""
    result = await Runner.run(desk(*payees, terms=terms), "go", journal=journal)
    waiting = [item.request_id for item in result.interruptions]
    return [row for name in waiting for row in await journal.requests(Query(id=name))]


@asynccontextmanager
async def dispatching(journal: Store, *channels: Channel, **options: Any) -> AsyncGenerator[Dispatcher]:
    """Have a dispatcher at work."""
    options.setdefault("attempts", QUICK)
    dispatcher = Dispatcher(journal, ChannelPlan(channels, **options), dice=Random(7))
    task = asyncio.ensure_future(dispatcher.run())
    try:
        yield dispatcher
    finally:
        dispatcher.stop()
        async with asyncio.timeout(10):
            await task


async def wake(journal: Store) -> None:
    """Have the dispatcher look at the clock again: a notice of what concerns nobody."""
    await journal.tell([Notice("nothing", "run")])


async def settled(journal: Store, state: str | None = None) -> bool:
    """Whether nothing is left to be told, but the dead."""
    left = await journal.deliveries(DeliveryQuery())
    return not await journal.outbox() and all(row.state == "dead" for row in left)


def to(person: str = "ada", channel: str = "mail", **wishes: Any) -> Recipient:
    return Recipient(person=person, channel=channel, **wishes)


def lost_after(do: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the same, and then loses the answer: the line to the store breaks."""

    async def done(*given: Any, **named: Any) -> Any:
        await do(*given, **named)
        raise StorageError("the journal's database cannot be reached")

    return done


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: int = 1_780_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def clocked() -> tuple[MemoryJournal, Clock]:
    clock = Clock()
    return MemoryJournal(clock), clock
