"""Show the conversation: one piece for each entry, and at the end what is being said right now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from textual.containers import VerticalScroll

from ...screens.drawing import Row, ours
from ...screens.rows import Rows
from ..drawing import entry_rows
from ..transcript import TranscriptEntry, Words

MOST = 400  # entries that are shown; what came before is in the journal


class TranscriptView(VerticalScroll):
    """Shows entries, follows their end, and lets somebody scroll back."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.whole = False
        self._shown: list[tuple[TranscriptEntry, int, bool, Rows]] = []
        self._live = Rows(self._live_rows, id="live")
        self._saying: dict[int, str] = {}
        self._turns = 0

    def on_mount(self) -> None:
        """Begin at the end."""
        self._live.display = False
        self.mount(self._live)
        self.anchor()

    def say(self, turn: int, delta: str) -> None:
        """Show a piece of a reply that is not recorded yet."""
        if turn > self._turns:
            self._saying[turn] = self._saying.get(turn, "") + delta
            self._live.display = True
            self._live.redraw()

    def settle(self, turns: int, *, at_work: bool) -> None:
        """Forget what was being said in turns that are recorded, or that nobody goes on with."""
        self._turns = turns
        for turn in [turn for turn in self._saying if turn <= turns or not at_work]:
            del self._saying[turn]
        self._live.display = bool(self._saying)
        self._live.redraw()

    def show(self, entries: list[TranscriptEntry]) -> None:
        """Show these entries: draw what is new or has changed, and leave the rest."""
        shown = entries[-MOST:]
        lanes = [before.lane != entry.lane for before, entry in pairwise([TranscriptEntry(), *shown])]
        for place, (entry, named) in enumerate(zip(shown, lanes, strict=True)):
            self._show_at(place, entry, named=named)
        for _entry, _version, _named, rows in self._shown[len(shown) :]:
            rows.remove()
        del self._shown[len(shown) :]

    def toggle(self) -> None:
        """Show all rows of each entry, or the first ones only."""
        self.whole = not self.whole
        for entry, _version, named, rows in self._shown:
            rows.redraw(self._drawn(entry, named=named))

    def _show_at(self, place: int, entry: TranscriptEntry, *, named: bool) -> None:
        if place < len(self._shown):
            known, version, was, rows = self._shown[place]
            if known is entry and version == entry.version and was == named:
                return
            rows.redraw(self._drawn(entry, named=named))
            self._shown[place] = entry, entry.version, named, rows
        else:
            rows = Rows(self._drawn(entry, named=named), classes="entry")
            self._shown.append((entry, entry.version, named, rows))
            self.mount(rows, before=self._live)
        rows.set_class(isinstance(entry, Words) and not entry.lane, "words")

    def _drawn(self, entry: TranscriptEntry, *, named: bool) -> Callable[[int], Iterator[Row]]:
        def drawn(width: int) -> Iterator[Row]:
            return entry_rows(entry, width, whole=self.whole, named=named)

        return drawn

    def _live_rows(self, width: int) -> Iterator[Row]:
        for turn in sorted(self._saying):
            yield from entry_rows(Words(text=self._saying[turn]), width)
        yield from ours("quiet", "...", width)
