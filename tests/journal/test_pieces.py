"""A log that is read in pieces: a line that is not there is noticed in its piece, as in the whole."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn.core.errors import LogDamaged
from keyturn.journal import open_journal

from .older import altered
from .restoring import Place


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("DELETE FROM events WHERE seq = 3", 3),
        ("DELETE FROM events WHERE seq = 5", 5),
        ("UPDATE events SET seq = 9 WHERE seq = 5", 5),
        ("UPDATE runs SET head = 4", 6),
        ("UPDATE runs SET head = 7", 6),
    ],
)
async def test_a_line_that_is_not_there_is_noticed_in_its_piece(place: Place, change: str, line: int) -> None:
    store: Any = open_journal(place.url)
    await store.append("run", 0, [b"%d" % number for number in range(6)])
    await store.close()
    altered(place.url, change)
    store = open_journal(place.url)
    read = list[bytes]()

    async def read_by_pieces() -> None:
        while piece := await store.read("run", len(read), 2):
            read.extend(piece)

    with pytest.raises(LogDamaged) as raised:
        await read_by_pieces()
    assert raised.value.line == line
    assert read == [b"%d" % number for number in range(len(read))]
    with pytest.raises(LogDamaged):
        await store.read("run")
    await store.close()
