"""Show rows on a Textual screen: plain text with styles of ours, in which nothing is ever read as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.visual import Visual
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

_AT_ONCE = 500  # rows that are drawn whole: of more, those that are on the screen


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

    def render_line(self, y: int) -> Strip:
        """Return one row as it is drawn; of many, no other one is."""
        rows = self.rows_at(self.content_size.width)
        if len(rows) <= _AT_ONCE:
            return super().render_line(y)
        [strip] = Visual.to_strips(
            self, content_of(rows[y : y + 1]), self.size.width, 1, self.visual_style, apply_selection=False
        )
        return strip.apply_offsets(0, y)  # by which a text that is selected is found
