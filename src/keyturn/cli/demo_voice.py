"""The layout of the demo's output: a word in the first column, a text beside it, and rules between processes.

What a model, a tool or a file's name says stands behind a margin of its own, as at the console: no row of it begins
where one of ours does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from ..console.screen import MARGIN, Terminal
from ..render.escape import Escaped, escape
from ..render.layout import LayoutLine
from ..render.terminal import folded_words, rows

COLUMN = 10
NARROW = 40  # with fewer columns, what is said stands under its word
_COLOURS: dict[str, LiteralString] = {
    "you": "36",
    "pending": "33",
    "refused": "31",
    "killed": "31",
    "finished": "32",
}


@dataclass(frozen=True)
class DemoVoice:
    """Writes the demo's output to a terminal."""

    screen: Terminal

    @property
    def width(self) -> int:
        """Return the columns that a line may have."""
        return min(self.screen.columns, 100)

    def tell(self, word: LiteralString, text: str) -> None:
        """Write a word of ours, and beside it, behind a margin, a text by anybody."""
        if self.width < NARROW:
            self.screen.label(word, text)
            return
        room = self.width - len(MARGIN) - COLUMN
        shown = text if isinstance(text, Escaped) else escape(text)
        lines = [LayoutLine("text", line) for line in shown.split("\n")]
        self._beside(word, [row for line in lines for row in rows(line, width=room)])

    def note(self, word: LiteralString, words: LiteralString, *values: int) -> None:
        """Write a word of ours, and beside it more of ours."""
        room = self.width - len(MARGIN) - COLUMN
        self._beside(word, folded_words(words.format(*values).split(" "), max(room, 1)))

    def _beside(self, word: LiteralString, column: list[str]) -> None:
        lead: str = word
        for row in column:
            painted = self.screen.paint(_COLOURS.get(word, "2"), lead) + " " * (COLUMN - len(lead))
            self.screen.show(MARGIN + painted + row if row.strip("| ") else (MARGIN + painted + row).rstrip())
            lead = ""

    def say(self, text: LiteralString = "") -> None:
        """Write sentences of ours."""
        for row in folded_words(text.split(" "), max(self.width - len(MARGIN), 1)):
            self.screen.show(MARGIN + row if row else "")

    def rule(self, title: LiteralString, *values: int) -> None:
        """Draw a rule before a new process, or a new part."""
        words = title.format(*values)
        line = "\u2500" * max(2, self.width - len(words) - len(MARGIN) - 1)
        self.screen.say()
        self.screen.show(f"{MARGIN}{self.screen.paint('1', words)} {self.screen.paint('2', line)}")
        self.screen.say()
