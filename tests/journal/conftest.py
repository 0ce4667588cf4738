"""The stores that tests of this room alter."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio

from tests.needs import missing

from .restoring import Place
from .tampered import Kept, made


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state directory of this test's own."""
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Place:
    """Where a store of either database may be kept."""
    if request.param == "sqlite":
        return Place(f"sqlite:///{tmp_path}/runs.db")
    server = request.getfixturevalue("postgres_server")
    if server is None:
        pytest.skip(missing("PostgreSQL"))
    name = f"p{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return Place(server.rpartition("/")[0] + "/" + name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A healthy store in a file, made once a module."""
    return await made(tmp_path_factory.mktemp("kept") / "runs.db")
