"""Show a call that waits for the person, whole, and the keys that decide it: the console's lines, words and letters.

Nothing that lets a call run is taken before its last row was on the screen, and what was being typed when it came up is
no answer to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.message import Message

from ...console.desk import Key as Word
from ...console.desk import offered
from ...console.introduction import introduce
from ...console.screen import Terminal, TooNarrow
from ...engine.views.items import ToolApprovalItem
from ...inbox.shown_request import ShownRequest
from ..drawing import Row, labelled, ours, painted
from .rows import Rows

# What the console offers and this screen has other means for: it shows all calls one by one, and has a key to quit.
_ELSEWHERE = ("o", "q")
_SHARE = 0.62  # of the screen's rows, that a call may take
_LEAST = 3  # rows of a call that are always there
_BESIDE = 4  # columns of the frame around it
_HERE: dict[str, LiteralString] = {"g": "approve for this session", "s": "show the rest", "l": "later"}


class RequestView(Vertical):
    """Shows one of the calls that wait, and passes on the letters that are typed."""

    grace = 0.6  # seconds without a key after a call came up, before a letter counts

    @dataclass
    class Chosen(Message):
        """Says which letter was typed for a call."""

        letter: str
        request: ShownRequest

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.requests: list[ShownRequest] = []
        self.place = 0
        self._armed_at = 0.0
        self._notice: list[tuple[LiteralString, str]] = []

    def compose(self) -> ComposeResult:
        """Make the parts: the call above, the keys below."""
        with VerticalScroll(id="asked"):
            yield Rows(self._asked_rows, id="asked-rows")
        yield Rows(self._notice_rows, id="asked-notice")
        yield Rows(self._key_rows, id="asked-keys")

    @property
    def request(self) -> ShownRequest | None:
        """Return the call that is shown."""
        return self.requests[self.place] if self.place < len(self.requests) else None

    def show(self, items: list[ToolApprovalItem]) -> bool:
        """Show what waits; return whether another call came up."""
        before = self.request
        known = {(request.item.request_id, request.item.digest): request for request in self.requests}
        self.requests = [known.get((item.request_id, item.digest)) or ShownRequest(item) for item in items]
        kept = [place for place, request in enumerate(self.requests) if request is before]
        self.place = kept[0] if kept else 0
        self.display = bool(self.requests)
        if self.request is before:
            self.query_one("#asked-rows", Rows).redraw()  # how many there are may have changed
            return False
        self._come_up()
        return self.request is not None

    def redraw(self) -> None:
        """Draw the call anew, as it was changed."""
        self.query_one("#asked-rows", Rows).redraw()
        self.query_one("#asked-keys", Rows).redraw()
        self._fit()
        self.call_after_refresh(self._look)

    def say(self, lead: LiteralString, text: str = "") -> None:
        """Show why nothing was decided."""
        self._notice = [(lead, text)] if lead else []
        self.query_one("#asked-notice", Rows).redraw()
        self._fit()

    def other(self, step: int) -> None:
        """Show the next call that waits, or the one before."""
        if len(self.requests) > 1:
            self.place = (self.place + step) % len(self.requests)
            self._come_up()

    def take_focus(self) -> None:
        """Let keys come here."""
        self.query_one("#asked").focus()

    def _come_up(self) -> None:
        self._armed_at = time.monotonic() + self.grace
        self.say("")
        self.query_one("#asked", VerticalScroll).scroll_home(animate=False)
        self.redraw()

    def on_mount(self) -> None:
        """Watch how far down somebody has looked."""
        self.display = False
        self.watch(self.query_one("#asked"), "scroll_y", self._look, init=False)

    def on_resize(self) -> None:
        """See whether all of it is on the screen now."""
        self._fit()
        self.call_after_refresh(self._look)

    def _fit(self) -> None:
        """Leave room for the keys: the call itself scrolls."""
        width = max(self.screen.size.width - _BESIDE, 1)
        below = sum(len(self.query_one(name, Rows).rows_at(width)) for name in ("#asked-notice", "#asked-keys"))
        below += self.query_one("#asked-keys").styles.margin.height
        self.query_one("#asked").styles.max_height = max(int(self.screen.size.height * _SHARE) - below - 2, _LEAST)

    def _look(self) -> None:
        """Note that the last row was on the screen."""
        body, request = self.query_one("#asked", VerticalScroll), self.request
        if request is None or request.seen_whole or not body.size.height or not self._fits():
            return
        if body.scroll_y >= body.max_scroll_y and body.virtual_size.height >= self._height():
            request.seen_whole = True
            self.query_one("#asked-keys", Rows).redraw()

    def _height(self) -> int:
        rows = self.query_one("#asked-rows", Rows)
        return len(rows.rows_at(rows.content_size.width))

    def _fits(self) -> bool:
        """Return whether the screen is wide enough to show a call at all."""
        rows: list[str] = []
        screen = Terminal(show=rows.append, width=self.query_one("#asked-rows", Rows).content_size.width)
        try:
            screen.label("call", "")
        except TooNarrow:
            return False
        return True

    def on_key(self, event: Key) -> None:
        """Pass on a letter that decides, once the person can have seen what it is about."""
        request = self.request
        if request is None:
            return
        if event.key in ("left", "right"):
            self.other(1 if event.key == "right" else -1)
            event.stop()
            return
        letter = event.character or ""
        if letter not in self._keys(request):
            return
        event.stop()
        now = time.monotonic()
        if now < self._armed_at:
            self._armed_at = now + self.grace
            self.say("just came up; press the key once more")
        elif letter == "s":
            self.query_one("#asked", VerticalScroll).scroll_page_down(animate=False)
        elif self._keys(request)[letter].runs and not request.seen_whole:
            self.say("there is more to see first: s shows it")
        else:
            self.say("")
            self.post_message(self.Chosen(letter, request))

    def _keys(self, request: ShownRequest) -> dict[str, Word]:
        return {letter: key for letter, key in offered(request).items() if letter not in _ELSEWHERE}

    def _asked_rows(self, width: int) -> Iterator[Row]:
        if self.request is not None:
            yield from asked_rows(self.request, (self.place + 1, len(self.requests)), width)

    def _notice_rows(self, width: int) -> Iterator[Row]:
        for lead, text in self._notice:
            yield from labelled("bad", lead, text, width) if text else ours("bad", lead, width)

    def _key_rows(self, width: int) -> Iterator[Row]:
        if self.request is None:
            return
        keys = [(letter, _HERE.get(letter, key.word)) for letter, key in self._keys(self.request).items()]
        if len(self.requests) > 1:
            keys.append(("\u2190 \u2192", "the others"))
        row: Row = []
        room = width
        for letter, word in keys:
            needs = len(letter) + len(word) + 1
            if row and needs + 2 > room:
                yield row
                row, room = [], width
            gap = "  " if row else ""
            row += [("waits", gap + letter), ("text", f" {word}")]
            room -= needs + len(gap)
        yield row


def asked_rows(request: ShownRequest, place: tuple[int, int], width: int) -> Iterator[Row]:
    """Draw a call that waits as the console does: who wants what and why, what would run, and what was changed."""
    drawn: list[str] = []
    screen = Terminal(show=drawn.append, colour=True, width=width)
    try:
        introduce(screen, request.item, *place)
        drawn += screen.rows(request.lines())
        for number, choice in enumerate(request.choices, 1):
            screen.label("choice", f"{number}  {choice}")
        if request.edit is not None:
            screen.say()
            screen.draw(request.difference())
    except TooNarrow:
        drawn = ["too narrow to show it"]
    while drawn and not drawn[0].strip():
        del drawn[0]
    yield from map(painted, drawn)
