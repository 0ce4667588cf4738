"""Say who reads of a request: who else can approve it, and whether the reader could have decided one that expired."""

from __future__ import annotations

from ..directory.recipients import may_hear, still_asked
from ..directory.state import Directory
from ..journal.rows import RequestRow
from ..presenting.facts import Reader


def reader_of(directory: Directory, person: str, row: RequestRow, now: int) -> Reader:
    """Return a user as one who reads of a request; of a mere name the directory says nothing."""
    known = directory.people.get(person)
    may = row.state == "expire" and known is not None and may_hear(directory, known, row.request, now)
    return Reader(person, now, still_asked(directory, row, now), may)
