"""What the tests of sessions share: a database of PostgreSQL, one for each worker of the tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.databases import Databases
from tests.needs import missing


@pytest.fixture(scope="session")
def postgres_url(databases: Databases | None) -> Generator[str]:
    """The address of a database that is gone after the tests; without a PostgreSQL to start, the test is skipped."""
    if databases is None:
        pytest.skip(missing("PostgreSQL"))
    url = databases.new()
    yield url
    databases.give_back(url)
