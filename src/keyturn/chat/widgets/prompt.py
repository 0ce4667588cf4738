"""Take what the person says: Enter sends it, ctrl+j begins a new line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.events import Key
from textual.message import Message
from textual.widgets import TextArea


class Prompt(TextArea):
    """Holds what is being typed."""

    @dataclass
    class Sent(Message):
        """Says that the person sent a text."""

        text: str

    def __init__(self, **options: Any) -> None:
        super().__init__(soft_wrap=True, tab_behavior="focus", show_line_numbers=False, **options)
        self.placeholder = "Message the agent. Enter sends it."

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            text = self.text.strip()
            self.clear()
            self.post_message(self.Sent(text))
        elif event.key == "ctrl+j":
            event.stop()
            event.prevent_default()
            self.insert("\n")
        else:
            await super()._on_key(event)
