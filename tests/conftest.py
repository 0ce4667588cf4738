"""What every test may rely on: how hard Hypothesis tries, how long a sweep is, and a store of each kind.

Fixtures for agents, models and journals are in `keyturn.testing`, where users find them too.
"""

import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from keyturn import MemoryJournal
from keyturn.journal import open_journal
from keyturn.testing.postgres import PostgresMissing, throwaway_postgres
from tests.needs import counted, missing

SWEEP = int(os.environ.get("KEYTURN_SWEEP", "25"))

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile(
    "sweep", deadline=None, max_examples=SWEEP, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last what was skipped and why, one line for each reason."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    for line in counted(str(report.longrepr[2]) for report in reporter.stats.get("skipped", ())):
        reporter.write_line(line)


@pytest.fixture(scope="session")
def sweep_size() -> int:
    """How many cases a test marked `sweep` tries: few in `make test`, COUNT in `make sweep`."""
    return SWEEP


@pytest.fixture(scope="session")
def postgres_server() -> Generator[str | None]:
    """The URL of a PostgreSQL of these tests' own, where there is one to start."""
    try:
        with throwaway_postgres() as postgres:
            yield postgres.url
    except PostgresMissing:
        yield None


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of each kind that comes with Keyturn."""
    if request.param != "postgresql":
        return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/runs.db"}[request.param]
    server = request.getfixturevalue("postgres_server")
    if server is None:
        pytest.skip(missing("PostgreSQL"))
    name = f"s{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return server.rpartition("/")[0] + "/" + name


@pytest.fixture
async def store(store_url: str) -> AsyncGenerator[Any]:
    """An empty store of each kind."""
    journal: Any = open_journal(store_url)
    yield journal
    if not isinstance(journal, MemoryJournal):
        await journal.close()
