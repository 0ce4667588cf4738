"""The journal in PostgreSQL keeps the room's promises, and what only a server can promise."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from keyturn.journal.base import Journal
from keyturn.journal.postgres import PostgresJournal
from keyturn.testing.postgres import PostgresMissing, throwaway_postgres
from keyturn.testing.suites.journals import JournalSuite
from keyturn.testing.suites.records import RecordsSuite


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    try:
        with throwaway_postgres() as postgres:
            yield postgres.url
    except PostgresMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def database(server: str) -> str:
    name = f"k{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return server.rpartition("/")[0] + "/" + name


class TestPostgresJournal(JournalSuite, RecordsSuite):
    @pytest.fixture(autouse=True)
    def where(self, database: str) -> None:
        self.database = database

    async def make_journal(self) -> Journal:
        return PostgresJournal(self.database, clock=self.clock)

    async def another(self, journal: Any) -> Journal:
        return PostgresJournal(self.database, clock=self.clock)


async def test_closing_while_it_begins_to_listen_ends_both(database: str) -> None:
    """Found by `trials.crash`: the thread was there and not started yet."""
    for _ in range(20):
        journal = PostgresJournal(database)
        listening = asyncio.ensure_future(journal.listening())
        await asyncio.sleep(0)
        async with asyncio.timeout(8):
            await journal.close()
            await listening
            await journal.listening()
