"""A terminal with a person at it: lines of ours, previews through the one renderer, and what is typed.

Nothing that a model or a tool wrote is printed here without having been escaped. What was typed before a question
was asked is no answer to it.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from ..core.preview import Preview, Text
from ..render.terminal import render, wants_colour

MARGIN = "  "


@dataclass(kw_only=True)
class Screen:
    """Where to write and whom to ask; all of it can be put in place by a test.

    >>> Screen(ask=lambda prompt: " a ").read("decide")
    'a'
    """

    ask: Callable[[str], str] = input
    show: Callable[[str], object] = print
    colour: bool = False
    width: int = 100

    @classmethod
    def here(
        cls,
        ask: Callable[[str], str] | None = None,
        show: Callable[[str], object] | None = None,
        colour: bool | None = None,
        width: int | None = None,
    ) -> Screen:
        """The screen of this process; what is given stands instead."""
        return cls(
            ask=ask or _typed_afresh,
            show=show or print,
            colour=wants_colour(sys.stdout) if colour is None else colour,
            width=width or shutil.get_terminal_size((100, 24)).columns,
        )

    def say(self, words: str = "") -> None:
        """A sentence of ours, folded where the screen ends."""
        for row in _folded(words.split(" "), max(self.width - len(MARGIN), 20)):
            self.show(MARGIN + row if row else "")

    def offer(self, choices: Iterable[str]) -> None:
        """Choices beside each other, as many in a row as fit; none is torn apart."""
        for row in _folded(choices, max(self.width - len(MARGIN), 20), gap="  "):
            self.show(MARGIN + row)

    def copied(self, command: str) -> None:
        """A command to be copied: in one piece, whatever the width."""
        self.show(MARGIN + command)

    def decided(self, words: str, *, runs: bool) -> None:
        """What was decided, in the colour of what follows from it."""
        self.say(self.paint("32" if runs else "33", words))

    def read(self, prompt: str) -> str:
        """A line of theirs. What no text can hold (a terminal of another encoding) stays as an escape."""
        return self.ask(f"{MARGIN}{prompt} > ").encode("utf-8", "backslashreplace").decode().strip()

    def draw(self, preview: Preview) -> None:
        """A preview, whole."""
        for row in self.rows(preview):
            self.show(row)

    def rows(self, preview: Preview) -> list[str]:
        """A preview as rows, all set in by as much, so that its margins stay in line.

        A summary that a block repeats under its own heading, which says whose words those are, is not drawn twice.
        """
        if any(isinstance(block, Text) and block.text == preview.summary for block in preview.blocks):
            preview = replace(preview, summary="")
        drawn = render(preview, colour=self.colour, width=self.width - len(MARGIN))
        return [MARGIN + row if row else "" for row in drawn.split("\n")]

    def bold(self, words: str) -> str:
        """Words that stand out, where there is colour."""
        return self.paint("1", words)

    def dim(self, words: str) -> str:
        """Words that step back, where there is colour."""
        return self.paint("2", words)

    def paint(self, code: str, words: str) -> str:
        """Words in a colour, where there is any."""
        return f"\x1b[{code}m{words}\x1b[0m" if self.colour and words else words


_COLOUR = re.compile(r"\x1b\[\d*m")


def _folded(words: Iterable[str], room: int, gap: str = " ") -> list[str]:
    """Words in rows of at most `room` columns, as far as each word fits; our own colours take no room."""
    rows = [""]
    for word in words:
        row = f"{rows[-1]}{gap}{word}" if rows[-1] else word
        if rows[-1] and len(_COLOUR.sub("", row)) > room:
            rows.append(word)
        else:
            rows[-1] = row
    return rows


def _typed_afresh(prompt: str) -> str:
    """`input`, after forgetting what was typed before this question stood on the screen."""
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
    """Let Ctrl-C end the question: inside `asyncio.run` the first one would only mark a task and be swallowed here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
