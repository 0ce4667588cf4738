"""What the tests of sessions share: a PostgreSQL of their own, one for each worker of the tests."""

from __future__ import annotations

import pytest

from tests.needs import missing


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str | None) -> str:
    """The address of a database that is gone after the tests; without a PostgreSQL to start, the test is skipped."""
    return postgres_server or pytest.skip(missing("PostgreSQL"))
