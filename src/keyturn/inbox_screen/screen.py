"""The inbox in the terminal: a Textual app in which a person sees what waits, and decides it.

It is live, and never moves under the cursor: what is new is announced and comes when it is asked for. What is decided
goes to the inbox of the journal, and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from typing import ClassVar, LiteralString

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.widgets import Input

from ..core.errors import KeyturnError, NotAllowed
from ..inbox.listing import Filters, Listed
from ..journal.rows import RequestRow
from ..presenting.asking import NOTHING_RAN, STATES
from ..presenting.clock import span
from ..presenting.list_row import ListRow, row_of
from ..presenting.source import PARTS, RequestSource
from ..render.escape import escape
from ..screens.drawing import Row, labelled, ours
from ..screens.key_bar import KeyBar
from ..screens.rows import Rows
from ..screens.theme import wear
from .deciding import InboxDecidingApp
from .list_view import ListView
from .reading import Detail, InboxSeat
from .request_view import InboxRequestView
from .style import CSS

_WIDE = 90  # columns from which the request stands beside the list
_TALL = 24
_AT_ONCE = 0.1  # what is written in one breath is looked at once
_AGAIN = 1.0
_AWAY: dict[str, LiteralString] = {
    "journal": "Journal unreachable; this list may be out of date",
    "server": "Server unreachable; this list may be out of date",
}
#: A word of a search; what is quoted holds spaces.
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_NAMES = ("tool", "agent", "risk")


class InboxApp(InboxDecidingApp):
    """Holds the screen of one person."""

    TITLE = "keyturn inbox"
    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "go(1)", "Next"),
        Binding("k,up", "go(-1)", "Before"),
        Binding("enter", "open", "Open"),
        Binding("escape", "leave", "Back", show=False),
        Binding("n", "renew", "New"),
        Binding("slash", "search", "Search"),
        Binding("m", "mine", "Mine"),
        Binding("question_mark,f1", "keys", "Keys"),
        Binding("q,ctrl+q", "quit", "Quit"),
    ]

    def __init__(self, seat: InboxSeat) -> None:
        super().__init__()
        wear(self)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (_TALL, "-tall")]
        self.seat = seat
        self.chosen = Filters()
        self._listed = Listed((), 0, True)
        self._ahead = 0  # of the journal's clock before ours
        self._gone = dict[str, str]()
        self._over = dict[str, ListRow]()  # what this person missed stays below what is open
        self._fresh = 0
        self._away = ""
        self._looking = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """Make the screen."""
        yield Rows(self._top_rows, id="top")
        yield Rows(self._fresh_rows, id="fresh")
        with Horizontal(id="middle"):
            with Vertical(id="left"):
                yield Input(placeholder="search pending requests", id="search")
                yield Rows(self._empty_rows, id="empty")
                yield ListView(self.now, id="list")
            yield InboxRequestView(self.now, lambda: self.list.at, id="right")
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin to look, and to count the time."""
        self.list.focus()
        self.set_interval(1.0, self._tick)
        self.run_worker(self._follow(), group="follow")

    @property
    def list(self) -> ListView:
        """Return the list."""
        return self.screen_stack[0].query_one(ListView)

    def now(self) -> int:
        """Return the journal's time, by its clock and not by this machine's."""
        return int(time.monotonic() * 1000) + self._ahead

    @property
    def away(self) -> str:
        """Return why nothing can be read now, "" where it can."""
        return self._away

    # ------------------------------------------------------------------------------------------------- what is so now

    async def _follow(self) -> None:
        """Look at once, and after whatever is written; a journal that is away is looked for again."""
        while True:
            try:
                await self._follow_changes()
            except (KeyturnError, OSError) as error:
                self._is_away(error)
                await asyncio.sleep(_AGAIN)

    async def _follow_changes(self) -> None:
        async with contextlib.aclosing(self.seat.changes()) as told:
            async for _ in told:
                await self._look()
                await asyncio.sleep(_AT_ONCE)

    def _is_away(self, error: Exception) -> None:
        """Say why nothing new is shown; whoever is let in no more is shown nothing."""
        self._away = str(error)
        if not self.is_running:  # somebody left meanwhile, and its widgets are gone
            return
        if isinstance(error, NotAllowed):
            self.list.show([])
            self.view.show(None)
        self._draw_top()

    async def look(self, *, renew: bool = False) -> None:
        """See what is so now; where the journal cannot be read, say so."""
        try:
            await self._look(renew=renew)
        except (KeyturnError, OSError) as error:
            self._is_away(error)

    async def _look(self, *, renew: bool = False) -> None:
        """See what is so now; the list stays as it is but for what became of its requests, unless it is renewed."""
        async with self._looking:
            self._listed = await self.seat.lists(self.chosen)
            self._ahead = await self.seat.now() - int(time.monotonic() * 1000)
            self._away = ""
            if not self.is_running:
                return
            now, shown = self.now(), set(self.list.ids)
            made = {row.id: row_of(row, now) for row in self._listed.rows}
            if renew or not shown:
                await self._note_missed()
                if not self.is_running:
                    return
                over = {} if self.chosen.any else {name: row for name, row in self._over.items() if name not in made}
                self._gone = dict.fromkeys(over, STATES["expire"])
                self._fresh = 0
                self.list.show([*made.values(), *over.values()])
                self.list.renew(made, self._gone)
            else:
                self._gone |= await self._ended([name for name in shown if name not in made])
                if not self.is_running:
                    return
                self._fresh = len(made.keys() - shown)
                self.list.renew(made, self._gone)
            self._draw_top()
            await self._read()

    async def _note_missed(self) -> None:
        """Note which of those that expired in the list this person could have decided."""
        for entry in [each for each in self.list.entries if each.gone == STATES["expire"]]:
            with contextlib.suppress(KeyturnError):
                if entry.row.id not in self._over and (await self.seat.reads(entry.row.id)).missed:
                    self._over[entry.row.id] = entry.row

    async def _ended(self, names: list[str]) -> dict[str, str]:
        """Return what became of those that wait no longer."""
        found = dict[str, str]()
        for name in names:
            if name not in self._gone:
                row = await self.seat.row(name)
                if row is not None and row.state != "open":
                    found[name] = STATES.get(row.state) or escape(row.state, keep="")
        return found

    async def _read(self) -> None:
        """Show the request under the cursor as it is now."""
        view, name = self.view, self.list.at
        if not name:
            view.show(None)
            return
        try:
            detail = await self.seat.reads(name, view.detail)
        except KeyturnError as error:
            if self.is_running:
                view.say("Cannot be shown", str(error))
            return
        if not self.is_running or name != self.list.at:
            return
        before = view.detail  # by now: of two reads at once the first is shown, and may have been edited since
        if before is None or before.asking != detail.asking:
            self.run_worker(self._watched(detail), group="looked")
        if before is None or before.row.id != name:
            view.show(detail)
        elif (before.state, before.head) != (detail.state, detail.head) or before.standing != detail.standing:
            view.show(detail)
            self.say_what_came(detail)
            self._tell_change(before, detail)

    def _tell_change(self, before: Detail, detail: Detail) -> None:
        """Say what somebody else did to the request that is on the screen."""
        row = detail.row
        if before.row.state == "open" and row.state != "open" and row.id not in self._own:
            self.view.say("No longer pending", _ended_by(row, self.now(), ran=detail.ran))
        elif before.row.digest != row.digest or before.row.request.revision != row.request.revision:
            self.view.say("The request changed: this is its current version", style="waits")

    def _tick(self) -> None:
        if len(self.screen_stack) == 1 and self.is_running:
            self.list.redraw()
            self.view.tick()

    # -------------------------------------------------------------------------------------------------- what keys do

    def on_list_view_moved(self, message: ListView.Moved) -> None:
        """Show the request that the cursor came to; the one before has no letters any more, and is not shown."""
        if self.view.detail is not None and self.view.detail.row.id != self.list.at:
            self.view.show(None)
        self.run_worker(self._read(), group="reading", exclusive=True)

    def on_key(self, event: Key) -> None:
        """Take a letter wherever the cursor is, where the request is on the screen."""
        letter = event.character or ""
        shown = len(self.screen_stack) == 1 and not isinstance(self.focused, Input) and self.view.region.height
        if shown and self.view.take(letter, event.time):
            event.stop()
            event.prevent_default()
        elif shown:
            self.view.say_why_not(letter)

    def action_go(self, step: int) -> None:
        """Move the cursor."""
        self.list.go(step)

    def action_open(self) -> None:
        """Go into the request."""
        if self.view.detail is None:
            return
        self.screen_stack[0].add_class("-opened")
        self.call_after_refresh(self.view.take_focus)
        self.run_worker(self._looked(self.view.detail.row), group="looked")

    async def _watched(self, detail: Detail) -> None:
        """Put on record that it is on the screen, where an approval has to come a while after that."""
        terms = detail.row.request.terms_now
        if terms is not None and terms.min_look is not None and self.view.region.height:
            await self._looked(detail.row)

    async def _looked(self, row: RequestRow) -> None:
        with contextlib.suppress(KeyturnError):  # nobody is held up by it
            await self.seat.looked(row)

    def action_leave(self) -> None:
        """Go back to the list; from a search, to all of it."""
        search = self.query_one("#search", Input)
        if search.display:
            search.value = ""
            search.display = False
        self.screen_stack[0].remove_class("-opened")
        self.list.focus()

    def action_renew(self) -> None:
        """Show what is new, and put away what is done."""
        self.run_worker(self.look(renew=True), group="looking")

    def action_search(self) -> None:
        """Begin to search."""
        search = self.query_one("#search", Input)
        search.display = True
        self.screen_stack[0].remove_class("-opened")
        search.focus()

    def action_mine(self) -> None:
        """Show only what this person may decide, or all."""
        self.chosen = replace(self.chosen, mine=not self.chosen.mine)
        self.action_renew()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list to what is searched."""
        if event.input.id == "search":
            self.chosen = filters_of(event.value, mine=self.chosen.mine)
            self.run_worker(self.look(renew=True), group="looking", exclusive=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go into what was found."""
        if event.input.id == "search":
            self.list.focus()

    # ------------------------------------------------------------------------------------------------- the other rows

    def _draw_top(self) -> None:
        main = self.screen_stack[0]
        for name in ("#top", "#fresh", "#empty"):
            main.query_one(name, Rows).redraw()
        main.query_one("#empty").display = not self.list.entries
        self.list.display = bool(self.list.entries)

    def _top_rows(self, width: int) -> Iterator[Row]:
        listed = self._listed
        count = f"{listed.found}{'' if listed.whole else ' and more'}"
        shown = f", first {len(listed.rows)} shown" if listed.found > len(listed.rows) else ""
        mine = " that you may decide" if self.chosen.mine else ""
        told = f"  {count} pending{mine}{shown}  as "
        person = f"{escape(self.seat.person, keep='')}{', an unverified name' if self.seat.unverified else ''}"
        yield [("title", "keyturn inbox"), ("quiet", (told + person)[: max(width - 14, 0)])]

    def _fresh_rows(self, width: int) -> Iterator[Row]:
        if self._away:
            yield from labelled("bad", _AWAY[self.seat.place], self._away, width)
        elif self._fresh:
            yield from ours("waits", "{} new, press n", width, self._fresh)
        elif done := len(self._gone.keys() - self._over.keys()):
            yield from ours("quiet", "{} decided; press n to hide them", width, done)

    def _empty_rows(self, width: int) -> Iterator[Row]:
        if self.chosen.any:
            yield from ours("title", "No pending requests match.", width)
        else:
            yield from ours("title", "No pending requests.", width)


def filters_of(typed: str, *, mine: bool = False) -> Filters:
    """Return what a line of search names.

    >>> (found := filters_of("refund risk:high")).risk, found.text
    ('high', 'refund')
    >>> filters_of('framework:"Claude Code" rm').source.framework
    'Claude Code'
    """
    named, source = dict.fromkeys(_NAMES, ""), dict.fromkeys(PARTS, "")
    words = list[str]()
    for found in _WORD.finditer(typed):
        word = found[0].replace('"', "", 2)
        name, colon, value = word.partition(":")
        if colon and name in named:
            named[name] = value
        elif colon and name in source:
            source[name] = value
        else:
            words.append(word)
    return Filters(**named, text=" ".join(words), mine=mine, source=RequestSource(**source))


def _ended_by(row: RequestRow, now: int, *, ran: bool) -> str:
    when = "" if row.closed_at is None else f" {span(now - row.closed_at)} ago"
    who = f"{row.by} " if row.by else ""
    return f"{who}{STATES.get(row.state, row.state)}{when}." + (
        " Nothing ran." if row.state in NOTHING_RAN and not ran else ""
    )
