"""What an attack found, held since, on a real PostgreSQL: fewer rights, and rows without a run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from keyturn.journal import open_journal
from keyturn.testing import postgres as pg
from tests.attack.world import looks_of_an_idle_worker
from tests.journal.restoring import Payer

pytestmark = pytest.mark.usefixtures("home")


async def opened_once(url: str) -> None:
    journal: Any = open_journal(url)
    await journal.close()


@pytest.fixture
def server() -> Generator[pg.Postgres]:
    with pg.throwaway_postgres() as server:
        yield server


@pytest.mark.trial
async def test_a_role_that_may_not_create_cannot_use_tables_that_an_administrator_made(server: pg.Postgres) -> None:
    """`or by an administrator before`: CREATE TABLE IF NOT EXISTS asks for the right to create all the same."""
    url = server.database()
    await opened_once(url)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE ROLE app LOGIN PASSWORD 'app'")
        db.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app")
        db.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app")
    place = url.partition("@")[2]
    await opened_once(f"postgresql://app:app@{place}")


@pytest.mark.trial
async def test_a_row_without_a_run_makes_no_worker_spin(server: pg.Postgres) -> None:
    """Holds on PostgreSQL only if the damage of one row is shelved: epoch below nought."""
    payer, url = Payer(), server.database()
    await opened_once(url)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("INSERT INTO runs (tenant, run, head, due) VALUES ('default', '', 1, 0)")
        db.execute("INSERT INTO runs (tenant, run, head, due) VALUES ('default', 'long', 9223372036854775807, 0)")
    journal: Any = open_journal(url)
    looked = await looks_of_an_idle_worker(journal, payer.agent)
    await journal.close()
    assert looked < 10, f"it looked {looked} times, idle"
