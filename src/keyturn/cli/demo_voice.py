"""How the demo speaks: a word in the first column, what it is about beside it, and rules between processes.

Text of a model or a tool is escaped before it is laid out.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from ..console.screen import MARGIN, Screen
from ..render.escape import escape

COLUMN = 10
_COLOURS = {"you": "36", "waits": "33", "refused": "31", "killed": "31", "finished": "32"}


@dataclass(frozen=True)
class Voice:
    """A screen, and the demo's way of using it."""

    screen: Screen

    @property
    def width(self) -> int:
        """The columns that a line may have."""
        return max(40, min(self.screen.width, 100))

    def tell(self, word: str, text: str) -> None:
        """A word of ours, and a text by anybody."""
        room = self.width - len(MARGIN) - COLUMN
        rows = [row for line in escape(text).split("\n") for row in textwrap.wrap(line, room) or [""]]
        for place, row in enumerate(rows):
            lead = word if place == 0 else ""
            painted = self.screen.paint(_COLOURS.get(word, "2"), lead) + " " * (COLUMN - len(lead))
            self.screen.show((MARGIN + painted + row).rstrip())

    def say(self, text: str = "") -> None:
        """Sentences of ours."""
        for row in textwrap.wrap(text, self.width - len(MARGIN), break_long_words=False) or [""]:
            self.screen.say(row)

    def rule(self, title: str) -> None:
        """A new process begins, or a new part."""
        line = "\u2500" * max(2, self.width - len(title) - len(MARGIN) - 1)
        self.screen.say()
        self.screen.show(f"{MARGIN}{self.screen.bold(title)} {self.screen.dim(line)}")
        self.screen.say()
