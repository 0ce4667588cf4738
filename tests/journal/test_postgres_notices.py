"""What other users of a PostgreSQL database send on our channel: each of them can, and no right is needed for it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import pytest

from keyturn.journal.postgres_listener import PostgresListener
from keyturn.journal.waiters import Waiters


class Notice(NamedTuple):
    """Stands for a notice of the database."""

    pid: int
    payload: str


class Rings(Waiters):
    """Keeps what it was rung for; None for everything."""

    def __init__(self) -> None:
        super().__init__()
        self.rung: list[Any] = []

    def ring(self, names: Any) -> None:
        self.rung += names

    def ring_all(self) -> None:
        self.rung.append(None)


@pytest.mark.parametrize(
    "forged",
    [
        *("5", "{}", "[1]", "[1, 2]", '[["a"], ["b"]]', '["a"]', '["a", "b", "c"]', "[" * 7_000),
        *('"ab"', "null", "true", "1e999", "", "\x00"),
    ],
)
def test_a_notice_that_another_user_of_the_database_forged_does_not_end_the_listener(forged: str) -> None:
    bell = Rings()
    listener = PostgresListener("postgresql://nowhere", bell, {7})

    class Database:
        def notifies(self, timeout: float) -> Generator[Notice]:
            yield from (Notice(5, forged), Notice(7, '["acme", "own"]'), Notice(5, '["acme", "run"]'))
            listener.stop()

    hear: Any = vars(PostgresListener)["_hear"]
    hear(listener, Database())
    assert bell.rung == [None, ("acme", "run")]
