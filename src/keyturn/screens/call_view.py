"""Show a call that waits, and take the letters that decide it: the console's words and letters.

Nothing that lets a call run is taken before its last row was on the screen, and what was being typed when it came up is
no answer to it. What rows there are, and which letters, says each screen for itself.
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

from ..console.screen import Terminal, TooNarrow
from ..presenting.shown_request import ShownRequest
from .drawing import Row, labelled, ours
from .quiet import Quiet
from .rows import Rows


@dataclass(frozen=True)
class Letter:
    """Says what a letter does to a call; `runs` says that it lets the call run."""

    word: LiteralString
    runs: bool = False


class CallView(Vertical):
    """Shows a call, and passes on the letters that are typed."""

    @dataclass
    class Chosen(Message):
        """Says which letter was typed for a call, and when."""

        letter: str
        request: ShownRequest
        pressed_at: float

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._quiet = Quiet()
        self._notice: list[tuple[LiteralString, LiteralString, str]] = []

    def compose(self) -> ComposeResult:
        """Make the parts: the call, what is known of it, and the keys below."""
        with VerticalScroll(id="asked"):
            yield Rows(self.asked_rows, id="asked-rows")
            yield Rows(self.known_rows, id="asked-known")
        yield Rows(self._notice_rows, id="asked-notice")
        yield Rows(self._key_rows, id="asked-keys")

    @property
    def request(self) -> ShownRequest | None:
        """Return the call that is shown."""
        raise NotImplementedError

    def letters(self, request: ShownRequest) -> dict[str, Letter]:
        """Return the letters that are taken for a call as it is now."""
        raise NotImplementedError

    def asked_rows(self, width: int) -> Iterator[Row]:
        """Draw what would run: all of these rows are seen before anything runs."""
        raise NotImplementedError

    def known_rows(self, width: int) -> Iterator[Row]:
        """Draw what else is known of it."""
        yield from ()

    def key_words(self, request: ShownRequest) -> list[tuple[str, LiteralString]]:
        """Return the keys as they stand below the call."""
        return [(letter, each.word) for letter, each in self.letters(request).items()]

    def fit(self) -> None:
        """Leave room for the keys, where the call may take more than there is."""

    @property
    def is_drawn(self) -> bool:
        """Return whether it has its parts: an answer may come while the screen is taken down."""
        return bool(self.query("#asked-notice"))

    def redraw(self) -> None:
        """Draw the call anew, as it was changed."""
        if not self.is_drawn:
            return
        for name in ("#asked-rows", "#asked-known", "#asked-keys"):
            self.query_one(name, Rows).redraw()
        self.fit()
        self.call_after_refresh(self._look)

    def say(self, lead: LiteralString, text: str = "", style: LiteralString = "bad") -> None:
        """Show why nothing was decided, or what was."""
        self._notice = [(style, lead, text)] if lead else []
        if not self.is_drawn:
            return
        self.query_one("#asked-notice", Rows).redraw()
        self.fit()

    def take_focus(self) -> None:
        """Let keys come here."""
        self.query_one("#asked").focus()

    def come_up(self, *, keeps: bool = False) -> None:
        """Show another call, from its first row; one that `keeps` what was recorded of it is the same, read again."""
        self._quiet.begin()
        if not (keeps and self._notice and self._notice[0][0] != "waits"):  # what waits for a second press is over
            self.say("")
        if not self.is_drawn:
            return
        self.query_one("#asked", VerticalScroll).scroll_home(animate=False)
        self.redraw()
        self.call_after_refresh(self._is_up, self.request)

    def _is_up(self, request: ShownRequest | None) -> None:
        """Note that a call is on the screen, unless another one came up since."""
        if request is self.request:
            self._quiet.drawn(time.monotonic())

    def on_mount(self) -> None:
        """Watch how far down somebody has looked."""
        self.watch(self.query_one("#asked"), "scroll_y", self._look, init=False)

    def on_resize(self) -> None:
        """See whether all of it is on the screen now."""
        self.fit()
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        """Note that the last row was on the screen."""
        if not self.is_drawn:
            return
        body, request = self.query_one("#asked", VerticalScroll), self.request
        if request is None or request.seen_whole or not body.size.height or not self._fits():
            return
        rows = self.query_one("#asked-rows", Rows)
        height = len(rows.rows_at(rows.content_size.width))
        if body.scroll_y + body.size.height >= height and body.virtual_size.height >= height:
            request.seen_whole = True
            self.query_one("#asked-keys", Rows).redraw()

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
        if self.take(event.character or "", event.time):
            event.stop()

    def take(self, letter: str, pressed_at: float) -> bool:
        """Take a key; return whether it is a letter of this call.

        Any key that comes too early begins the wait anew.
        """
        request = self.request
        if request is None:
            return False
        in_time = self._quiet.answers(pressed_at)
        if letter not in self.letters(request):
            return False
        if not in_time:
            self.say("this just appeared; press the key again")
        elif letter == "s":
            self.query_one("#asked", VerticalScroll).scroll_page_down(animate=False)
        elif self.letters(request)[letter].runs and not request.seen_whole:
            self.say("not all rows are shown yet: press s first")
        else:
            self.say("")
            self.post_message(self.Chosen(letter, request, pressed_at))
        return True

    def _notice_rows(self, width: int) -> Iterator[Row]:
        for style, lead, text in self._notice:
            yield from labelled(style, lead, text, width) if text else ours(style, lead, width)

    def _key_rows(self, width: int) -> Iterator[Row]:
        if self.request is None:
            return
        row: Row = []
        room = width
        for letter, word in self.key_words(self.request):
            needs = len(letter) + len(word) + 1
            if row and needs + 2 > room:
                yield row
                row, room = [], width
            gap = "  " if row else ""
            row += [("waits", gap + letter), ("text", f" {word}")]
            room -= needs + len(gap)
        yield row
