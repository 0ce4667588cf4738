"""List the conversations of the journal, and let the person go on with one."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from ...screens.asking import Dialog, sentence
from ...screens.drawing import labelled
from ...screens.rows import content_of
from ..archive import Talk


class TalksDialog(Dialog[Talk]):
    """Lists conversations, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+r", "leave", "Leave")]

    def __init__(self, talks: list[Talk]) -> None:
        super().__init__()
        self.talks = talks

    def parts(self) -> ComposeResult:
        """Make the list."""
        yield sentence("title", "Earlier conversations")
        if not self.talks:
            yield sentence("quiet", "No conversations in this journal yet.")
        yield OptionList(id="talks", markup=False)

    def on_mount(self) -> None:
        """Begin in the list."""
        self._list()
        self.query_one(OptionList).focus()

    def on_resize(self, event: Resize) -> None:
        """Fold the rows anew."""
        self._list()

    def _list(self) -> None:
        found = self.query_one(OptionList)
        at, room = found.highlighted or 0, max(found.size.width - 4, 20)
        found.clear_options()
        for talk in self.talks:
            when = datetime.fromtimestamp(talk.last.updated_at / 1000)
            waits = f", {talk.last.waiting} waiting" if talk.last.waiting else ""
            told = f"{when:%Y-%m-%d %H:%M}  {talk.last.status}{waits}  {talk.title}"
            found.add_option(Option(content_of(labelled("heading", "run", f"{talk.last.run[:8]}  {told}", room))))
        if self.talks:
            found.highlighted = at

    @on(OptionList.OptionSelected)
    def take(self, event: OptionList.OptionSelected) -> None:
        """Go on with the one that was chosen."""
        self.dismiss(self.talks[event.option_index])
