"""Show the calls of a conversation that wait for the person, one at a time, whole, as the console does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString

from textual.containers import VerticalScroll
from textual.events import Key

from ...console.desk import offered
from ...console.introduction import introduce
from ...console.screen import Terminal, TooNarrow
from ...engine.views.items import ToolApprovalItem
from ...presenting.shown_request import ShownRequest
from ...screens.call_view import CallView, Letter
from ...screens.drawing import Row, painted
from ...screens.rows import Rows

# What the console offers and this screen has other means for: it shows all calls one by one, and has a key to quit.
_ELSEWHERE = ("o", "q")
_SHARE = 0.62  # of the screen's rows, that a call may take
_LEAST = 3  # rows of a call that are always there
_BESIDE = 4  # columns of the frame around it
_HERE: dict[str, LiteralString] = {"g": "approve for this session", "s": "show the rest", "l": "later"}


class ChatRequestView(CallView):
    """Shows one of the calls that wait, and passes on the letters that are typed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.requests: list[ShownRequest] = []
        self.place = 0

    @property
    def request(self) -> ShownRequest | None:
        """Return the call that is shown."""
        return self.requests[self.place] if self.place < len(self.requests) else None

    def letters(self, request: ShownRequest) -> dict[str, Letter]:
        """Return the console's letters, but for those that this screen has other means for."""
        keys = offered(request).items()
        return {
            letter: Letter(_HERE.get(letter, key.word), key.runs) for letter, key in keys if letter not in _ELSEWHERE
        }

    def key_words(self, request: ShownRequest) -> list[tuple[str, LiteralString]]:
        """Return the keys, and how the other calls are reached."""
        words = super().key_words(request)
        return [*words, ("\u2190 \u2192", "the others")] if len(self.requests) > 1 else words

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
        self.come_up()
        return self.request is not None

    def other(self, step: int) -> None:
        """Show the next call that waits, or the one before."""
        if len(self.requests) > 1:
            self.place = (self.place + step) % len(self.requests)
            self.come_up()

    def on_mount(self) -> None:
        """Begin hidden: nothing waits."""
        self.display = False

    def fit(self) -> None:
        """Leave room for the keys: the call itself scrolls."""
        width = max(self.screen.size.width - _BESIDE, 1)
        below = sum(len(self.query_one(name, Rows).rows_at(width)) for name in ("#asked-notice", "#asked-keys"))
        below += self.query_one("#asked-keys").styles.margin.height
        body = self.query_one("#asked", VerticalScroll)
        body.styles.max_height = max(int(self.screen.size.height * _SHARE) - below - 2, _LEAST)

    def on_key(self, event: Key) -> None:
        """Go to another call."""
        if self.request is not None and event.key in ("left", "right"):
            self.other(1 if event.key == "right" else -1)
            event.prevent_default()
            event.stop()

    def asked_rows(self, width: int) -> Iterator[Row]:
        """Draw the call that is shown."""
        if self.request is not None:
            yield from asked_rows(self.request, (self.place + 1, len(self.requests)), width)


def asked_rows(request: ShownRequest, place: tuple[int, int], width: int) -> Iterator[Row]:
    """Draw a call that waits as the console does: who wants what and why, what would run, and what was changed."""
    drawn: list[str] = []
    screen = Terminal(show=drawn.append, colour=True, width=width)
    try:
        introduce(screen, request.item, *place)
        drawn += screen.rows(request.lines(numbered=True))
        for number, choice in enumerate(request.choices, 1):
            screen.label("choice", f"{number}  {choice}")
        if request.edit is not None:
            screen.say()
            screen.draw(request.difference())
    except TooNarrow:
        drawn = ["the window is too narrow to show the call"]
    while drawn and not drawn[0].strip():
        del drawn[0]
    yield from map(painted, drawn)
