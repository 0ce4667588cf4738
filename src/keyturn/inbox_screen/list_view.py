"""Show what waits as a list that never moves under the cursor: what is new is announced, what is gone is marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from textual.containers import VerticalScroll
from textual.events import Click
from textual.geometry import Region
from textual.message import Message

from ..presenting.list_row import ListRow
from ..screens.drawing import Row
from ..screens.rows import Rows
from .drawing import ListEntry, list_rows

TALL = 2  # rows of one request


class ListView(VerticalScroll):
    """Shows the entries of the list and where the cursor is."""

    @dataclass
    class Moved(Message):
        """Says that the cursor is on another request."""

        id: str

    def __init__(self, now: Callable[[], int], **options: Any) -> None:
        super().__init__(**options)
        self._now = now
        self.entries: list[ListEntry] = []
        self.place = 0
        self._drawn = Rows(self._rows)

    def compose(self) -> Iterator[Rows]:
        """Make the rows."""
        yield self._drawn

    @property
    def at(self) -> str:
        """Return the id under the cursor, "" where there is none."""
        return self.entries[self.place].row.id if self.entries else ""

    @property
    def ids(self) -> list[str]:
        """Return what is listed, in order."""
        return [entry.row.id for entry in self.entries]

    def show(self, rows: list[ListRow]) -> None:
        """Show another list; the cursor stays on its request where that is still there."""
        before = self.at
        self.entries = [ListEntry(row) for row in rows]
        self.place = self.ids.index(before) if before in self.ids else min(self.place, max(len(rows) - 1, 0))
        self.redraw()
        if self.at != before:
            self._moved()

    def renew(self, rows: dict[str, ListRow], gone: dict[str, str]) -> None:
        """Draw each request as it is now, in its place; of those that wait no longer, what became of them."""
        self.entries = [
            ListEntry(rows.get(entry.row.id, entry.row), gone.get(entry.row.id, "")) for entry in self.entries
        ]
        self.redraw()

    def redraw(self) -> None:
        """Draw it by the time that it is now."""
        self._drawn.redraw()

    def go(self, step: int) -> None:
        """Move the cursor."""
        wanted = max(0, min(self.place + step, len(self.entries) - 1))
        if self.entries and wanted != self.place:
            self.place = wanted
            self._moved()

    def _moved(self) -> None:
        self.redraw()
        self.call_after_refresh(self._reveal)
        self.post_message(self.Moved(self.at))

    def _reveal(self) -> None:
        self.scroll_to_region(Region(0, self.place * TALL, 1, TALL), animate=False)

    def on_click(self, event: Click) -> None:
        """Go to the request that was clicked."""
        place = int(event.y + self.scroll_y) // TALL
        if event.widget is self._drawn:
            place = event.y // TALL
        if 0 <= place < len(self.entries):
            self.go(place - self.place)

    def _rows(self, width: int) -> Iterator[Row]:
        yield from list_rows(self.entries, self.place, self._now(), width)
