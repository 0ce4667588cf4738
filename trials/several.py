"""Those who decide the stories that take several people: a directory, and what each of them says at an inbox.

Whatever was said before is said again by whoever comes later, as people do who do not know how far it got: it counts
once. And the books of those who are told: every notice that was acknowledged is told at least once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from keyturn import Conflict, Inbox
from keyturn.channels import dispatcher
from keyturn.channels.base import CLAIMED, TOPICS, Channel, Message, Recipient
from keyturn.channels.dispatcher import Dispatcher
from keyturn.channels.plan import ChannelPlan
from keyturn.core.errors import Expired, NotAllowed, NotPending
from keyturn.core.events import ApprovalWithdrawn, CallDecided
from keyturn.core.run import request_id
from keyturn.directory.login import Login
from keyturn.directory.people import People
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.rows import DeliveryQuery, RequestRow

from .lifecycle import PURSE, Story
from .world import Deed, World

ROOT = "root"
ROLES = {"ada": ["lead"], "bob": ["lead"], "cyd": ["lead"], "dan": [], "eve": ["lead", "chief"]}
ROLES |= {name: ["lead", "chief", "board"] for name in ("fay", "gil")}
TOLD = "told"
_LATE = (Conflict, NotPending, Expired)
# Who looks what became of a call in doubt: they may decide any of the stories' calls.
_LOOK = ("fay", "gil")
_YEARS = 1e9


class Circle:
    """The people of a store, and what they say of the stories that take several."""

    def __init__(self, store: Any, world: World) -> None:
        self.people = People(store)
        self.inbox = Inbox(store, people=self.people)
        self._store, self._world = store, world
        self._meeting = asyncio.Lock()

    async def meet(self) -> None:
        """Begin the directory, or what is missing of it."""
        async with self._meeting:
            if not (await self.people.directory()).place:
                await self.people.start(ROOT)
            for name, roles in ROLES.items():
                if name not in (await self.people.directory()).people:
                    await self.people.add(name, roles=roles, by=ROOT)
            if not (await self.people.directory()).delegations:
                await self.people.delegate("cyd", "dan", lasts="365d")

    async def settle(self, story: Story, run: str) -> int:
        """Say what there is to say of a run; of how many calls in doubt."""
        await self.meet()
        doubts = 0
        for row in await self.inbox.list(run=run):
            if row.kind == "in_doubt":
                doubts += 1
                await self._all(_LOOK, row, "resolve", **self._fact(row))
            else:
                await getattr(self, f"_{story.name}", self._agree)(story, row)
        return doubts

    def _fact(self, row: RequestRow) -> dict[str, Any]:
        done = self._world.did(row.id)
        return {"outcome": "ran", "output": done[0]} if done else {"outcome": "retry"}

    async def _agree(self, story: Story, row: RequestRow) -> None:
        await self._all(story.people, row, "approve")

    async def _all(self, people: tuple[str, ...], row: RequestRow, word: str, **words: Any) -> None:
        """Have each of them say it, who may not know that others have."""
        for who in people:
            try:
                await getattr(self.inbox, word)(row, by=Login(who), **words)
            except _LATE:
                continue

    async def _demotes(self, story: Story, row: RequestRow) -> None:
        await self.people.take_role("lead", of="bob", by=ROOT)
        try:
            await self._all(("bob",), row, "approve")
        except NotAllowed:
            pass
        else:
            if (await self.inbox.get(row.id)).state == "open":
                raise AssertionError("somebody decided whose role had been taken away")
        await self._agree(story, row)

    async def _shatters(self, story: Story, row: RequestRow) -> None:
        await self._all(("eve",), row, "approve", break_glass=True, note="it burns")

    async def _regrets(self, story: Story, row: RequestRow) -> None:
        log = await log_in(self._store, row.run)
        events = [event for step in log.steps for event in step.events]
        await self._agree(story, row)
        if not any(isinstance(event, ApprovalWithdrawn) for event in events):
            await self._all(("ada",), row, "withdraw")

    async def _marks(self, story: Story, row: RequestRow) -> None:
        await self._all(("ada", "bob"), row, "take", lasts="10m")
        await self._all(("eve",), row, "snooze", lasts="10m")
        await self._all(("bob",), row, "let_go")
        await self._agree(story, row)


async def overspent(store: Any, deeds: list[Deed]) -> list[str]:
    """Whether what nobody approved came to more than the budget that the runs share."""
    spent = {deed.key: (deed.run, int(deed.what.split()[1])) for deed in deeds if deed.what.startswith("spend")}
    approved = set[str]()
    for run in {run for run, _ in spent.values()}:
        log = await log_in(store, run)
        made = [event.decision for step in log.steps for event in step.events if isinstance(event, CallDecided)]
        approved |= {request_id(log.run, each.call) for each in made if each.verdict == "approve"}
    total = sum(amount for key, (_, amount) in spent.items() if key not in approved)
    return [f"{total} was spent of a budget of {PURSE}, and nobody said so"] if total > PURSE else []


class Ledger(Channel):
    """Writes what it tells into a file, which outlives whoever tells."""

    name = "ledger"
    every_event = True
    sends_topics = frozenset({*TOPICS, CLAIMED})

    def __init__(self, folder: Path) -> None:
        self._path = folder / TOLD

    async def callers(self, _store: Any, _run: str, _at: int) -> list[Recipient]:
        """It is what each caller outside is told by."""
        return [Recipient(person="", channel=self.name)]

    async def send(self, message: Message) -> None:
        with self._path.open("a") as books:
            books.write(f"{message.topic} {message.run} {message.request}\n")


def plan(folder: Path) -> ChannelPlan:
    """One who is told of everything, however old it is."""
    return ChannelPlan([Ledger(folder)], forget=_YEARS)


@asynccontextmanager
async def _telling(store: Any, folder: Path) -> AsyncGenerator[None]:
    at_work = Dispatcher(store, plan(folder))
    task = asyncio.ensure_future(at_work.run())
    try:
        yield
    finally:
        at_work.stop()
        await task


async def untold(store: Any, folder: Path, expected: set[str]) -> list[str]:
    """Tell what is left to tell; which notices were lost, and whether the dispatcher's lease was given back."""
    async with _telling(store, folder):
        async with asyncio.timeout(20):
            while await store.outbox(1) or await store.deliveries(DeliveryQuery(limit=1)):
                await asyncio.sleep(0.01)
    try:
        await store.release(await store.claim(dispatcher.LEASE, "who looks", 1_000))
    except Conflict as held:
        return [f"the outbox is still held: {held}"]
    books = folder / TOLD
    told = set(books.read_text().splitlines()) if books.exists() else set[str]()
    return [f"never told: {notice}" for notice in sorted(expected - told)]
