"""A terminal with a person at it: trusted words of ours, escaped words of others, and typed input.

Two ways lead to the screen. `say` and its kin write words of ours: constants of this program (`LiteralString`, which
the type checker enforces) filled with numbers and times. `label` and `draw` write what anybody else wrote: escaped,
and behind a margin that no row of ours has, also where a row is folded. What was typed before a question was asked
is no answer to it.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from msgspec.structs import replace

from ..core.preview import Preview, Text
from ..render.escape import escape
from ..render.layout import LayoutLine
from ..render.terminal import NARROWEST, folded_words, render, rows, wants_colour

MARGIN: LiteralString = "  "


class TooNarrow(EOFError):
    """Raised where the terminal has no room for the margin, so that nothing can be shown and nobody asked."""


@dataclass(kw_only=True)
class Terminal:
    """Writes to a terminal and reads from it; all of it can be replaced by a test.

    >>> Terminal(ask=lambda prompt: " a ").read("decide")
    'a'
    """

    ask: Callable[[str], str] = input
    show: Callable[[str], object] = print
    colour: bool = False
    width: int | None = 100  # None asks the terminal, each time anew: it may be made narrower

    @classmethod
    def here(
        cls,
        ask: Callable[[str], str] | None = None,
        show: Callable[[str], object] | None = None,
        colour: bool | None = None,
        width: int | None = None,
    ) -> Terminal:
        """Make the terminal of this process; arguments replace its parts."""
        return cls(
            ask=ask or _typed_afresh,
            show=show or print,
            colour=wants_colour(sys.stdout) if colour is None else colour,
            width=width,
        )

    @property
    def columns(self) -> int:
        """Return the columns that a row may have now."""
        return shutil.get_terminal_size((100, 24)).columns if self.width is None else self.width

    def say(self, words: LiteralString = "", *values: int | datetime) -> None:
        """Write a sentence of ours, folded where the screen ends."""
        self._ours(words.format(*values).split(" "))

    def stress(self, words: LiteralString, *values: int | datetime) -> None:
        """Write a sentence of ours that stands out, where there is colour."""
        self._ours(self.paint("1", word) for word in words.format(*values).split(" "))

    def decided(self, words: LiteralString, *, runs: bool) -> None:
        """Write what was decided, in the colour of what follows from it."""
        self._ours(self.paint("32" if runs else "33", word) for word in words.split(" "))

    def offer(self, keys: Iterable[tuple[LiteralString, LiteralString]]) -> None:
        """Write keys and their words beside each other, as many in a row as fit; none is torn apart."""
        self._ours((f"{self.paint('1', letter)} {word}" for letter, word in keys), gap="  ")

    def explain(self, key: LiteralString, words: LiteralString) -> None:
        """Write what a key does."""
        self._ours([self.paint("1", key), *words.split(" ")])

    def _ours(self, words: Iterable[str], gap: str = " ") -> None:
        for row in folded_words(words, max(self.columns - len(MARGIN), 1), gap):
            self.show(MARGIN + row if row else "")

    def label(self, lead: LiteralString, text: str) -> None:
        """Write a text of anybody's behind words of ours that say what it is; it stays behind them."""
        line = LayoutLine("text", escape(text, keep=""), lead)
        for row in rows(line, colour=self.colour, width=self._room()):
            self.show(MARGIN + row)

    def _room(self) -> int:
        """Return the columns beside our indentation, or raise `TooNarrow`: without its margin nothing is shown."""
        columns = self.columns
        if columns < len(MARGIN) + NARROWEST:
            self.say("This terminal has {} columns; {} are needed to show a call.", columns, len(MARGIN) + NARROWEST)
            raise TooNarrow
        return columns - len(MARGIN)

    def copied(self, command: LiteralString, argument: str) -> None:
        """Write a command to be copied: in one piece where the screen has room for it, else as any label."""
        row = f"{command} {escape(argument, keep='')}"
        if len(row) <= self._room() and row.isascii():
            self.show(MARGIN + row)
        else:
            self.label(command, argument)

    def read(self, prompt: LiteralString) -> str:
        """Read a typed line.

        What no text can hold (a terminal of another encoding) stays as an escape.
        """
        return self.ask(f"{MARGIN}{prompt} > ").encode("utf-8", "backslashreplace").decode().strip()

    def draw(self, preview: Preview) -> None:
        """Write a preview, whole."""
        for row in self.rows(preview):
            self.show(row)

    def rows(self, preview: Preview) -> list[str]:
        """Draw a preview as rows, all set in by as much, so that its margins stay in line.

        A summary that a block repeats under its own heading, which says whose words those are, is not drawn twice.
        """
        if any(isinstance(block, Text) and block.text == preview.summary for block in preview.blocks):
            preview = replace(preview, summary="")
        drawn = render(preview, colour=self.colour, width=self._room())
        return [MARGIN + row if row else "" for row in drawn.split("\n")]

    def paint(self, code: LiteralString, words: str) -> str:
        """Colour words, where there is any colour."""
        return f"\x1b[{code}m{words}\x1b[0m" if self.colour and words else words


def _typed_afresh(prompt: str) -> str:
    """Read a line by `input`, after forgetting what was typed before this question stood on the screen."""
    with _interruptible():
        if sys.stdin.isatty():
            _forget()
        return input(prompt)


def _forget() -> None:
    try:
        import termios
    except ImportError:  # not a Unix terminal: there is nothing to forget with
        return
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextmanager
def _interruptible() -> Generator[None]:
    """Let Ctrl-C end the question; inside `asyncio.run` the first one would only mark a task."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
