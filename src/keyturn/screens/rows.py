"""Show rows on a Textual screen: plain text with styles of ours, in which nothing is ever read as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from .drawing import Row

STYLES: dict[str, str] = {
    "text": "",
    "strong": "bold",
    "heading": "bold",
    "title": "bold $primary",
    "note": "$warning",
    "command": "",
    "json": "",
    "context": "$quiet",
    "removed": "$error",
    "added": "$success",
    "unchanged": "$quiet",
    "quiet": "$quiet",
    "you": "bold $accent",
    "assistant": "bold $primary",
    "lane": "bold $secondary",
    "waits": "bold $warning",
    "bad": "bold $error",
    "good": "$success",
    "runs": "bold $accent",
    "key": "bold $accent",
}


def content_of(rows: Iterable[Row]) -> Content:
    """Return rows as one content, each in a line of its own; no text in them is parsed.

    >>> content_of([[("you", "[b]You[/b]")]]).plain
    '[b]You[/b]'
    """
    return Content("\n").join([Content.assemble(*((text, STYLES[style]) for style, text in row)) for row in rows])


class Rows(Widget):
    """Draws rows for the width that it has, and is as high as they are."""

    DEFAULT_CSS = "Rows { height: auto; width: 1fr; }"

    def __init__(self, draw: Callable[[int], Iterable[Row]], **options: Any) -> None:
        super().__init__(**options)
        self._draw = draw
        self._drawn: tuple[int, list[Row]] | None = None

    def redraw(self, draw: Callable[[int], Iterable[Row]] | None = None) -> None:
        """Draw anew, perhaps something else."""
        self._draw = draw or self._draw
        self._drawn = None
        self.refresh(layout=True)

    def rows_at(self, width: int) -> list[Row]:
        """Return the rows for a width."""
        if self._drawn is None or self._drawn[0] != width:
            self._drawn = width, list(self._draw(width))
        return self._drawn[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows there are."""
        return len(self.rows_at(width))

    def render(self) -> Content:
        """Return the rows for the width that there is."""
        return content_of(self.rows_at(self.content_size.width))
