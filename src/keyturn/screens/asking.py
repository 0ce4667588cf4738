"""Ask the person for a line or a text, over the conversation; Escape leaves it unanswered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, LiteralString, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input

from .drawing import Row, labelled, ours
from .quiet import Quiet
from .rows import Rows

T = TypeVar("T")


class Dialog(ModalScreen[T | None]):
    """Stands over the conversation until it is answered or left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    def __init__(self) -> None:
        super().__init__()
        self._wrong: list[tuple[LiteralString, str]] = []

    def compose(self) -> ComposeResult:
        """Put the parts into a box."""
        with VerticalScroll(classes="dialog", can_focus=False):
            yield from self.parts()
            yield Rows(self._wrong_rows, id="wrong")

    def parts(self) -> ComposeResult:
        """Make what is in the box."""
        yield from ()

    def action_leave(self) -> None:
        """Leave it unanswered."""
        self.dismiss(None)

    def refuse(self, lead: LiteralString, text: str = "") -> None:
        """Say why this is no answer."""
        self._wrong = [(lead, text)]
        self.query_one("#wrong", Rows).redraw()

    def _wrong_rows(self, width: int) -> Iterable[Row]:
        for lead, text in self._wrong:
            yield from labelled("bad", lead, text, width) if text else ours("bad", lead, width)


class KeyDialog(Dialog[T]):
    """Is answered by one key, which was pressed for it: not by one that was being typed as it came up."""

    ANSWERS: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self._quiet = Quiet()

    def on_mount(self) -> None:
        """Wait until it is on the screen."""
        self.call_after_refresh(lambda: self._quiet.drawn(time.monotonic()))

    def on_key(self, event: Key) -> None:
        """Take a key that answers."""
        in_time = self._quiet.answers(event.time)
        if event.key not in self.ANSWERS:
            return
        event.stop()
        if in_time:
            self.dismiss(self.ANSWERS[event.key])
        else:
            self.refuse("this just appeared; press the key again")


def sentence(style: str, words: LiteralString) -> Rows:
    """Make a piece of the screen that holds a sentence of ours."""
    return Rows(lambda width: ours(style, words, width))


class LineDialog(Dialog[str]):
    """Asks for one line."""

    def __init__(self, title: LiteralString, words: LiteralString, above: Callable[[int], Iterable[Row]]) -> None:
        super().__init__()
        self._parts = sentence("title", title), sentence("quiet", words)
        self._above = above

    def parts(self) -> ComposeResult:
        """Make the title, what the line is about, and the line."""
        title, words = self._parts
        yield title
        yield Rows(self._above)
        yield words
        yield Input(id="line")
        yield sentence("quiet", "Enter sends it, Escape leaves without it.")

    def on_mount(self) -> None:
        """Begin in the line."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: object) -> None:
        """Take the line."""
        self.dismiss(self.query_one(Input).value.strip())


class TextDialog(Dialog[None]):
    """Shows rows to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,question_mark,f1", "leave", "Leave")]

    def __init__(self, title: LiteralString, rows: Callable[[int], Iterable[Row]]) -> None:
        super().__init__()
        self._parts = sentence("title", title), Rows(rows)

    def parts(self) -> ComposeResult:
        """Make the title and the rows."""
        yield from self._parts
