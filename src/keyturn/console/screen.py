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
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from ..core.preview import Preview
from ..render.escape import visible
from ..render.layout import LayoutLine, preview_lines, text_lines
from ..render.terminal import NARROWEST, drawn, folded_words, rows, wants_colour
from .editor import columns_of, editor_of, fits_a_line, in_editor, typed_before, unremembered

MARGIN: LiteralString = "  "
ROOM = 4  # columns that a prompt leaves for what is typed
RULE = 100  # columns that a rule has at most


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

    def rule(self, words: LiteralString, *values: int) -> None:
        """Draw a rule with a heading across the screen if it is wide enough for one.

        The rule is of ASCII: what is not, some terminals draw twice as wide.
        """
        said = words.format(*values)
        room = min(self.columns, RULE) - len(MARGIN)
        spare = room - len(said) - 4
        if spare < 2:
            self._ours(self.paint("36", word) for word in said.split(" "))
        else:
            self.show(MARGIN + self.paint("36", f"-- {said} {'-' * spare}"))

    def explain(self, key: LiteralString, words: LiteralString) -> None:
        """Write what a key does."""
        self._ours([self.paint("1", key), *words.split(" ")])

    def _ours(self, words: Iterable[str], gap: str = " ") -> None:
        for row in folded_words(words, max(self.columns - len(MARGIN), 1), gap):
            self.show(MARGIN + row if row else "")

    def label(self, lead: LiteralString, text: str) -> None:
        """Write a text of anybody's behind words of ours that say what it is; it stays behind them."""
        line = LayoutLine("text", visible(text), lead)
        for row in rows(line, colour=self.colour, width=self._room()):
            self.show(MARGIN + row)

    def _room(self) -> int:
        """Return the columns beside our indentation, or raise `TooNarrow`: without its margin nothing is shown."""
        columns = self.columns
        if columns < len(MARGIN) + NARROWEST:
            self.say("This terminal has {} columns; {} are needed to show a call.", columns, len(MARGIN) + NARROWEST)
            raise TooNarrow
        return columns - len(MARGIN)

    def read(self, prompt: LiteralString) -> str:
        """Ask for a line; what no text can hold (a terminal of another encoding) stays as an escape."""
        return self._asked(prompt).strip()

    def _asked(self, prompt: LiteralString, present: str = "") -> str:
        """Ask for a line that may begin with a text, which has a row of its own where it would be wrapped."""
        room = self.columns - len(MARGIN)
        *before, last = folded_words([*prompt.split(" "), ">"], max(room - ROOM, 1))
        if present and len(last) + columns_of(present) + 2 > room:
            *before, last = [*folded_words(prompt.split(" "), max(room, 1)), ">"]
        for row in before:
            self.show(MARGIN + row)
        return self.ask(f"{MARGIN}{last} ").encode("utf-8", "backslashreplace").decode()

    def amend(self, prompt: LiteralString, present: str) -> str | None:
        """Ask for a text that replaces another, starting from it; return None if nothing changes.

        A text that does not fit the line is changed in the person's editor, if they have named one.
        """
        if fits_a_line(present, self.columns - len(MARGIN) - ROOM):
            with typed_before(present) if self.at_keyboard else nullcontext():
                typed = self._asked(prompt, present)
            return None if typed in ("", present) else typed
        command = editor_of() if self.at_keyboard else None
        if command is None:
            self.say("This value cannot be edited in one line. Set EDITOR to edit it there, or type the whole value.")
            return self._asked(prompt) or None
        self.say("Opened in your editor. Hidden characters are escaped there, as they are here.")
        changed = in_editor(present, command)
        return None if changed == present else changed

    @property
    def at_keyboard(self) -> bool:
        """Return whether a person types here, not a program."""
        return self.ask is _typed_afresh and sys.stdin.isatty()

    def quote(self, lead: LiteralString, text: str) -> None:
        """Write a text from outside, line by line, under a heading that says whose it is."""
        for row in self.rows([[LayoutLine("heading", "", lead), *text_lines(text)]]):
            self.show(row)

    def draw(self, preview: Preview) -> None:
        """Write a preview, whole."""
        for row in self.rows(preview_lines(preview)):
            self.show(row)

    def rows(self, groups: Iterable[Iterable[LayoutLine]]) -> list[str]:
        """Draw groups of lines as rows, all indented alike, so that their margins stay in line."""
        return [MARGIN + row if row else "" for row in drawn(groups, colour=self.colour, width=self._room())]

    def paint(self, code: LiteralString, words: str) -> str:
        """Colour words, where there is any colour."""
        return f"\x1b[{code}m{words}\x1b[0m" if self.colour and words else words


def _typed_afresh(prompt: str) -> str:
    """Read a line by `input`, after forgetting what was typed before this question stood on the screen."""
    with interruptible(), unremembered():
        while (typed := _typed(prompt)) is None:
            pass
    return typed


def _typed(prompt: str) -> str | None:
    """Read a line; return None where it was no text, which somebody who is there can type again."""
    if sys.stdin.isatty():
        _forget()
    try:
        return input(prompt)
    except UnicodeDecodeError:
        if not sys.stdin.isatty():
            raise
    return None


def _forget() -> None:
    try:
        import termios
    except ImportError:  # not a Unix terminal: there is nothing to forget with
        return
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C end what somebody waits for; inside `asyncio.run` the first one would only mark a task."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
