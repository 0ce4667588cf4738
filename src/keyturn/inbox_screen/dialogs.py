"""Ask for what goes along with a word: a reason, the requests of the same shape, what else was approved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, LiteralString

from textual.app import ComposeResult

from ..journal.rows import RequestRow
from ..presenting.list_row import row_of
from ..screens.asking import KeyDialog, sentence
from ..screens.drawing import Row, labelled, ours
from ..screens.rows import Rows

Word = Literal["approve", "reject"]


class AlikeDialog(KeyDialog[Word]):
    """Shows the requests of one shape, each in a row; the answer is one word for all of them."""

    ANSWERS: ClassVar[Mapping[str, Word]] = {"a": "approve", "r": "reject"}

    def __init__(self, rows: Sequence[RequestRow], now: int) -> None:
        super().__init__()
        self._listed = rows
        self._now = now

    def parts(self) -> ComposeResult:
        """Make a row for each request, and say what a word comes to."""
        yield Rows(
            lambda width: ours("title", "{} pending calls of this tool with these arguments", width, len(self._listed))
        )
        yield sentence("quiet", "Each is decided separately: a failure of one does not affect the others.")
        yield Rows(self._rows)
        yield Rows(
            lambda width: ours("waits", "a approve all {}  r reject all  Escape cancel", width, len(self._listed))
        )

    def _rows(self, width: int) -> Iterable[Row]:
        for row in self._listed:
            told = row_of(row, self._now)
            requester = row.request.requester
            about = f"{told.path}, {told.left or 'no deadline'}" + (f", for {requester}" if requester else "")
            lead: LiteralString = "request"
            yield from labelled("heading", lead, f"{row.id[:8]}  {about}", width)
