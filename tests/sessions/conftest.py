"""What the tests of sessions share: a PostgreSQL of their own, one for each worker of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keyturn.testing.postgres import PostgresMissing, throwaway_postgres
from tests.needs import missing


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a database that is gone after the tests; without a PostgreSQL to start, the test is skipped."""
    try:
        with throwaway_postgres() as server:
            yield server.url
    except PostgresMissing:
        pytest.skip(missing("PostgreSQL"))
