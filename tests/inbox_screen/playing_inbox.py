"""Play the inbox in the terminal: a screen that nobody sees, an office full of requests, and keys that are pressed.

No test is here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from keyturn import App, MemoryJournal
from keyturn.directory.login import Login
from keyturn.inbox.desk import Inbox
from keyturn.inbox_screen.reading import InboxSeat
from keyturn.inbox_screen.screen import InboxApp
from keyturn.journal.rows import RequestRow
from tests.screens import drawn
from tests.server.office import Clock, office, opened, peopled
from tests.waiting import until


@dataclass
class Desk:
    """One screen, and who presses its keys."""

    screen: InboxApp
    pilot: Pilot[Any]
    app: App
    clock: Clock

    async def press(self, *keys: str) -> None:
        await until(lambda: drawn(self.screen.screen))
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        self.screen.screen.query_one(Input).value = text
        await self.press("enter")

    async def until(self, reached: Callable[[], Any]) -> None:
        try:
            await until(reached, every=0.02)  # to read a screen takes a while
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None
        await self.pilot.pause()

    async def says(self, *words: str) -> None:
        """Wait until the screen says these words."""
        await self.until(lambda: all(word in self.text() for word in words))

    async def at(self, tool: str) -> None:
        """Go to the request of a tool, and wait until it is shown."""
        await self.until(lambda: any(entry.row.tool == tool for entry in self.screen.list.entries))
        places = [entry.row.tool for entry in self.screen.list.entries]
        self.screen.list.go(places.index(tool) - self.screen.list.place)
        await self.until(lambda: self.shown == tool)

    async def seen(self) -> None:
        """Have all of what would run on the screen once."""
        for _ in range(200):
            await self.pilot.pause(0.02)
            request = self.screen.view.request
            if request is not None and request.seen_whole:
                return
            await self.press("s")
        raise AssertionError("it was never on the screen")

    @property
    def asks(self) -> bool:
        """Whether a dialog stands over the inbox."""
        return len(self.screen.screen_stack) > 1

    @property
    def shown(self) -> str:
        detail = self.screen.view.detail
        return "" if detail is None else detail.row.tool

    async def row(self, tool: str) -> RequestRow:
        """Return the row of a tool's request, whatever became of it."""
        rows = [await self.app.inbox.get(name) for name in self.screen.list.ids]
        return next(row for row in rows if row.tool == tool)

    def text(self) -> str:
        """Return the characters on the screen."""
        drawn: Any = self.screen.screen
        strips = drawn._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


@asynccontextmanager
async def desk(
    *names: str, person: str = "ada", size: tuple[int, int] = (120, 40), unverified: bool = False
) -> AsyncGenerator[Desk]:
    """Open the inbox of an office in which these agents ask."""
    clock = Clock()
    async with App(office(), MemoryJournal(clock=clock)) as app:
        await peopled(app)
        if names:
            await opened(app, *names)
        async with sitting(app, clock, person, size, unverified=unverified) as made:
            await made.until(lambda: len(made.screen.list.entries) >= len(names))
            await made.until(lambda: not names or made.shown)
            yield made


@asynccontextmanager
async def sitting(
    app: App,
    clock: Clock,
    person: str,
    size: tuple[int, int] = (120, 40),
    inbox: Inbox | None = None,
    *,
    unverified: bool = False,
) -> AsyncGenerator[Desk]:
    """Open the inbox of an app, or of its journal alone, for one person, by their name alone if it is `unverified`."""
    own = (inbox or app.inbox).as_person(person if unverified else Login(person))
    screen = InboxApp(InboxSeat(own, person, unverified=unverified))
    async with screen.run_test(size=size) as pilot:
        yield Desk(screen, pilot, app, clock)
