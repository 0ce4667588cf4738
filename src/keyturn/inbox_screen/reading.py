"""Say what the screen asks of wherever it sits: a list, all of one request, and the words that decide it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, Protocol

from ..core.records import Word
from ..inbox.listing import Filters, Listed
from ..inbox.naming import Outcome
from ..journal.rows import RequestRow
from ..presenting.asking import Standing, mark_of
from ..presenting.shown_request import ShownRequest
from ..presenting.trail import Mark
from ..presenting.words_before import Context


class Seat(Protocol):
    """Lists, reads and decides for one person, at a journal or at a server."""

    @property
    def place(self) -> LiteralString:
        """Return what is away when nothing can be read."""
        ...

    @property
    def person(self) -> str:
        """Return the id of who looks."""
        ...

    async def now(self) -> int:
        """Return the time there, in milliseconds."""
        ...

    def changes(self) -> AsyncGenerator[object]:
        """Yield at once, and whenever something else may be so."""
        ...

    async def lists(self, chosen: Filters) -> Listed:
        """Return the list, as far as it is shown."""
        ...

    async def row(self, name: str) -> RequestRow | None:
        """Return the row of a request, whatever became of it; None where there is none."""
        ...

    async def reads(self, name: str, before: Detail | None = None) -> Detail:
        """Return all of one request; what was seen and changed of it stays if it is still the one that was shown."""
        ...

    async def looked(self, row: RequestRow) -> None:
        """Put on record that a request is on the screen."""
        ...

    async def says(self, request: ShownRequest, word: str, *given: Any, **more: Any) -> RequestRow:
        """Say a word of the inbox about exactly what was shown."""
        ...

    async def alike(self, request: ShownRequest) -> Sequence[RequestRow]:
        """Return the open requests of the same tool with the same arguments."""
        ...

    async def says_all(self, word: str, rows: Sequence[RequestRow], note: str | None) -> Sequence[Outcome]:
        """Say one word of several requests, of each as it was shown."""
        ...

    async def edits(self, request: ShownRequest, typed: Mapping[str, str]) -> None:
        """Change arguments as they were typed, or raise what the tool has against it."""
        ...

    async def challenge(self, request: ShownRequest, verdict: Word, words: dict[str, Any]) -> bytes:
        """Return what this person signs who says that of exactly what was shown."""
        ...

    async def key(self) -> Path:
        """Return the file of the ssh key that this person signs with, or raise `UserError` with the remedy."""
        ...

    def signing(self, row: RequestRow) -> str:
        """Return the command that approves a request with a signature."""
        ...


class Detail(NamedTuple):
    """Holds all that is shown of one request."""

    row: RequestRow
    request: ShownRequest
    standing: Standing
    context: Context
    trail: list[Mark]
    head: int
    ran: bool

    @property
    def mark(self) -> str:
        """Return which mark stands for it."""
        return mark_of(self.row)

    @property
    def asking(self) -> tuple[str, str, int]:
        """Return what a decision names: the request, as it was shown."""
        return self.row.id, self.row.digest, self.row.revision

    @property
    def state(self) -> tuple[object, ...]:
        """Return what differs where the request is not as it was shown."""
        row = self.row
        return row.digest, row.state, row.request.revision, len(row.request.votes), row.request.claim, row.expires_at
