"""The journal in PostgreSQL keeps the room's promises, and what only a server can promise."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from keyturn.core.errors import Conflict
from keyturn.journal.base import ClaimFilter, Journal
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.rows import Dispatch, Notice
from keyturn.testing.suites.journals import JournalSuite
from keyturn.testing.suites.outboxes import OutboxSuite
from keyturn.testing.suites.records import RecordsSuite
from tests.playing import Clock
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


async def test_two_workers_claim_what_is_due_without_asking_for_the_same_run(database: str) -> None:
    one, two = PostgresJournal(database), PostgresJournal(database)
    for number in range(30):
        await one.append(f"run{number}", 0, [b"1"])
    await one.append("@log", 0, [b"1"])
    asked = [store.claim_due(f"w{n}", 60_000, 10, ClaimFilter()) for n, store in enumerate((one, two, one))]
    made = await asyncio.gather(*asked)
    claims = [claim for each in made for claim in each.claims]
    assert len({claim.run for claim in claims}) == len(claims) == 30
    assert {name for each in made for name in each.others} <= {"@log"}
    assert {claim.epoch for claim in claims} == {1}
    for claim in claims:
        with pytest.raises(Conflict):
            await two.claim(claim.run, "w9", 60_000)
        await one.append(claim.run, 1, [b"2"], claim)
    assert (await one.claim_due("w0", 60_000, 10, ClaimFilter(("desk",), 2))).claims == []
    await one.close()
    await two.close()


async def test_what_is_claimed_unnamed_is_not_claimed_again_in_the_same_transaction(database: str) -> None:
    """The rows that a batch names are read as it begins: they are others once some were claimed."""
    journal = PostgresJournal(database)
    await journal.append("run", 0, [b"1"])
    blocked = asyncio.ensure_future(journal.write(lambda db: db.execute("SELECT pg_sleep(0.3)")))
    await until(lambda: journal._writer._busy and not journal._writer._jobs)  # now all shares a transaction
    both = await asyncio.gather(
        journal.claim_due("w1", 60_000, 5, ClaimFilter()), journal.claim("run", "w2", 60_000), return_exceptions=True
    )
    await blocked
    assert not isinstance(both[0], BaseException)
    assert [claim.run for claim in both[0].claims] == ["run"]
    assert isinstance(both[1], Conflict)
    await journal.close()


async def test_a_worker_that_holds_an_expired_run_itself_is_named_it_and_not_given_it_anew(database: str) -> None:
    clock = Clock()
    journal = PostgresJournal(database, clock=clock)
    await journal.append("run", 0, [b"1"])
    [claim] = (await journal.claim_due("w1", 60_000, 5, ClaimFilter())).claims
    clock.pass_ms(60_001)
    assert await journal.claim_due("w1", 60_000, 5, ClaimFilter()) == ([], ["run"])
    await journal.renew(claim, 60_000)
    clock.pass_ms(60_001)
    [taken] = (await journal.claim_due("w2", 60_000, 5, ClaimFilter())).claims
    assert (taken.epoch, taken.lost) == (2, 1)
    with pytest.raises(Conflict):
        await journal.append("run", 1, [b"x"], claim)
    await journal.close()


async def test_a_pooled_journal_keeps_nothing_in_a_session(database: str) -> None:
    journal = PostgresJournal(f"{database}?pooled=1")
    other = PostgresJournal(database)
    seen = asyncio.ensure_future(journal.wait_until_due())
    assert not await journal.be_present("worker")
    for number in range(5):
        await other.append("run", number, [b"1"])
        await journal.append("own", number, [b"1"])
        await journal.read("run")
    async with asyncio.timeout(30):
        await seen
    kept = "SELECT count(*) FROM pg_prepared_statements"
    assert await journal.whole(lambda db: db.execute(kept)) == [(0,)]
    assert await journal.write(lambda db: db.execute(kept)) == [(0,)]
    assert await journal.whole(lambda db: db.execute("SHOW lock_timeout")) == [("0",)]
    assert await journal.write(lambda db: db.execute("SHOW lock_timeout")) == [("10s",)]
    listens = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE query LIKE 'LISTEN%%' AND datname = current_database() AND pid <> %s"
    )
    with psycopg.connect(database) as db:
        assert db.execute(listens.encode(), [db.info.backend_pid]).fetchone() == (0,)
    await journal.close()
    await other.close()
