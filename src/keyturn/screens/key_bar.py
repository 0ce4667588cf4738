"""Show the keys that are at hand as one row, and take a click on one.

Textual's own footer is a widget for each key, all made anew at each change of the focus: half of what a screen costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from textual.events import Click

from .drawing import Row
from .rows import Rows


@dataclass(frozen=True)
class ShownKey:
    """Names a key, and what stands for it in the row."""

    key: str
    display: str
    word: str

    @property
    def row(self) -> Row:
        """Return how it is drawn."""
        return [("key", f" {self.display} "), ("text", f"{self.word} ")]

    @property
    def width(self) -> int:
        """Return how many columns it takes."""
        return sum(len(text) for _style, text in self.row)


class KeyBar(Rows):
    """Shows the first key of each action that the screen takes now."""

    DEFAULT_CSS = "KeyBar { dock: bottom; height: 1; text-wrap: nowrap; background: $panel; }"

    def __init__(self) -> None:
        super().__init__(self._key_row)
        self._keys: list[ShownKey] = []

    def on_mount(self) -> None:
        """Draw the keys, and draw them anew when they change."""
        screen: Any = self.screen
        screen.bindings_updated_signal.subscribe(self, self._look)
        self._look(screen)

    def _look(self, screen: Any) -> None:
        named = dict[str, ShownKey]()
        for each in screen.active_bindings.values():
            binding = each.binding
            if binding.show and binding.action not in named:
                named[binding.action] = ShownKey(binding.key, screen.app.get_key_display(binding), binding.description)
        if self._keys != list(named.values()):
            self._keys = list(named.values())
            self.redraw()

    def _key_row(self, _width: int) -> Iterator[Row]:
        yield [part for shown in self._keys for part in shown.row]

    def on_click(self, event: Click) -> None:
        """Press the key that was clicked."""
        screen: Any = self.screen
        left = event.x
        for shown in self._keys:
            if 0 <= left < shown.width:
                screen.app.simulate_key(shown.key)
                return
            left -= shown.width
