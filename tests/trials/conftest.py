"""What the trials share: a PostgreSQL, which each of them would start for itself otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Any

import psycopg
import pytest

from tests.databases import Databases
from trials.places import SERVER


@pytest.fixture(scope="session")
def trials_environment(
    databases: Databases | None, postgres_door: psycopg.Connection[Any] | None
) -> Generator[Callable[[], dict[str, str]]]:
    """Make the environment of a trial: it names an empty database, where there is a PostgreSQL."""
    made: list[str] = []

    def environment() -> dict[str, str]:
        if databases is None or postgres_door is None:
            return {**os.environ}
        row = postgres_door.execute(
            "SELECT current_setting('unix_socket_directories') || '/.s.PGSQL.' || current_setting('port')"
        ).fetchone()
        assert row is not None
        made.append(databases.new())
        return {**os.environ, SERVER: f"{row[0]} {made[-1].rpartition('/')[2]}"}

    yield environment
    for url in made:
        assert databases is not None
        databases.give_back(url)
