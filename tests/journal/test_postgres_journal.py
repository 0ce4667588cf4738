"""The journal in PostgreSQL keeps the room's promises, and what only a server can promise."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from keyturn.journal.base import Journal
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.rows import Dispatch, Notice
from keyturn.testing.suites.journals import JournalSuite
from keyturn.testing.suites.outboxes import OutboxSuite
from keyturn.testing.suites.records import RecordsSuite
from tests.waiting import turns_of_the_loop, until


class TestPostgresJournal(JournalSuite, RecordsSuite, OutboxSuite):
    @pytest.fixture(autouse=True)
    def where(self, database: str) -> None:
        self.database = database

    async def make_journal(self) -> Journal:
        return PostgresJournal(self.database, clock=self.clock)

    async def another(self, journal: Any) -> Journal:
        return PostgresJournal(self.database, clock=self.clock)


async def test_processes_that_open_an_empty_database_at_the_same_time_all_have_it(database: str) -> None:
    """As a server and its workers do that are started together: all but one were refused."""
    waiting = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM"
    )
    with psycopg.connect(database, autocommit=True) as first:
        first.execute("SELECT pg_advisory_lock(hashtext('keyturn.schema'))")
        opening = [asyncio.ensure_future(asyncio.to_thread(PostgresJournal, database)) for _ in range(3)]
        there = f"{waiting} pg_database WHERE datname = current_database())".encode()
        await until(lambda: first.execute(there).fetchone() == (3,))
        first.execute("SELECT pg_advisory_unlock(hashtext('keyturn.schema'))")
        for journal in await asyncio.gather(*opening):
            await journal.close()


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


async def test_a_notice_that_is_committed_late_is_kept(database: str) -> None:
    """Its number may be lower than that of one which a dispatcher has read, and deletes."""
    journal = PostgresJournal.open(database)
    try:
        claim = await journal.claim("outbox/test", "dispatcher", 60_000)
        with psycopg.connect(database) as slow:
            slow.execute("INSERT INTO outbox (tenant, run, topic, about) VALUES ('default', 'slow', 't', '{}')")
            await journal.tell([Notice("t", "quick")])
            told = await journal.outbox()
            slow.commit()
        await journal.dispatch(claim, Dispatch([notice.number for notice in told]))
        assert [notice.run for notice in await journal.outbox()] == ["slow"]
    finally:
        await journal.close()
