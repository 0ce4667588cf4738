"""A journal under test: how it is made, how its time passes, and how a watcher is read.

Here is what the suite of journals stands on; what a journal promises is in `journals.py`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from ...journal.base import Journal


class Clock:
    """A clock that stands still until it is advanced, in milliseconds.

    >>> clock = Clock(1_000)
    >>> clock.advance(500)
    >>> clock()
    1500
    """

    def __init__(self, now: int = 1_750_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, ms: int) -> None:
        """Let time pass; a negative number sets the clock back."""
        self.now += ms


async def seen(journal: Journal, run: str, count: int, after: int = 0) -> list[bytes]:
    """Return the first `count` lines that a watcher sees from `after` on, however long they take to come.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> journal = MemoryJournal()
    >>> asyncio.run(journal.append("run", 0, [b"one", b"two"]))
    >>> asyncio.run(seen(journal, "run", 1, after=1))
    [b'two']
    """
    lines: list[bytes] = []
    async with asyncio.timeout(20), aclosing(journal.watch(run, after)) as watched:
        while len(lines) < count:
            lines.append(await anext(watched))
    return lines


class JournalCase:
    """Gives tests of journals a journal, a second connection to it, another tenant's view, and the time.

    >>> JournalCase.slack
    0
    """

    pytestmark = pytest.mark.asyncio

    #: How many milliseconds may pass by themselves during a test: 0 with a clock that stands still.
    slack: ClassVar[int] = 0

    async def make_journal(self) -> Journal:
        """Make an empty journal, once per test.

        Give it `self.clock`; a store that has a clock of its own overrides `now` and `pass_time`, and sets `slack`.
        """
        raise NotImplementedError("say how a journal is made")

    async def another(self, journal: Journal) -> Journal:
        """Return a second journal on the same store, as another process has it; the same object if there is none."""
        return journal

    def of(self, journal: Any, tenant: str) -> Journal:
        """Return the same store as another tenant sees it."""
        return journal.of(tenant)

    async def now(self) -> int:
        """Return the journal's time."""
        return self.clock()

    async def pass_time(self, ms: int) -> None:
        """Let time pass for the journal."""
        self.clock.advance(ms)

    async def door(self, journal: Journal) -> Journal:
        """Call `another`, and close the result afterwards."""
        made = await self.another(journal)
        self.opened.append(made)
        return made

    @pytest_asyncio.fixture
    async def journal(self) -> AsyncGenerator[Journal, None]:
        """Give the journal under test; it and its other doors are closed afterwards if they can be."""
        self.clock, self.opened = Clock(), list[Journal]()
        made = await self.make_journal()
        yield made
        for door in {id(door): door for door in (*self.opened, made)}.values():
            close = getattr(door, "close", None)
            closing = close() if close is not None else None
            if inspect.isawaitable(closing):
                await closing
