"""The journal in PostgreSQL keeps the room's promises, and what only a server can promise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn.journal.base import Journal
from keyturn.journal.postgres import PostgresJournal
from keyturn.testing.suites.journals import JournalSuite
from keyturn.testing.suites.outboxes import OutboxSuite
from keyturn.testing.suites.records import RecordsSuite
from tests.waiting import turns_of_the_loop


class TestPostgresJournal(JournalSuite, RecordsSuite, OutboxSuite):
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
        await turns_of_the_loop()
        async with asyncio.timeout(8):
            await journal.close()
            await listening
            await journal.listening()
