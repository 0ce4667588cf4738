"""Do what a letter says of the call on the screen, one letter at a time: no dialog opens over another."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from typing import LiteralString, TypeVar

from textual.app import App

from ..presenting.shown_request import ShownRequest
from .asking import LineDialog
from .call_view import CallView
from .drawing import Row, labelled

T = TypeVar("T")
NARROWEST_DIALOG = 20  # columns


class LettersApp(App[T]):
    """Passes on the letters of a screen that has a view of calls."""

    def __init__(self) -> None:
        super().__init__()
        self._acting: list[ShownRequest] = []
        self.pressed_at = time.monotonic()  # the letter that is acted on

    def act(self, letter: str, request: ShownRequest) -> Awaitable[None]:
        """Do what a letter says of a call."""
        raise NotImplementedError

    @property
    def can_ask(self) -> bool:
        """Return whether there is room for a dialog, and none is open."""
        return len(self.screen_stack) == 1 and self.size.width >= NARROWEST_DIALOG

    def on_call_view_chosen(self, message: CallView.Chosen) -> None:
        """Do what a letter says of a call, unless one before it is still being done."""
        if self.can_ask and message.request not in self._acting:
            self._acting.append(message.request)
            self.pressed_at = message.pressed_at
            self.run_worker(self._acted(message.letter, message.request), group="deciding")

    async def _acted(self, letter: str, request: ShownRequest) -> None:
        try:
            await self.act(letter, request)
        finally:
            self._acting.remove(request)

    async def line_for(
        self, request: ShownRequest, title: LiteralString, words: LiteralString, means: str = ""
    ) -> str | None:
        """Ask for a line about a request, whose choices stand above it, and what the line `means` for it."""

        def above(width: int) -> Iterator[Row]:
            yield from labelled("heading", "call", request.item.qualified_name or "", width)
            for number, choice in enumerate(request.choices, 1):
                yield from labelled("heading", "choice", f"{number}  {choice}", width)
            if means:
                yield from labelled("note", "note", means, width)

        return await self.push_screen_wait(LineDialog(title, words, above))
