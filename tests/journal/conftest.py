"""The stores that tests of this room alter."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from keyturn.engine import execution

from .restoring import NoLedger, Place
from .tampered import Kept, made


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state directory of this test's own, and a process that remembers nothing of its own runs."""
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(execution, "LEDGER", NoLedger())
    return tmp_path / "home"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Place:
    """Where a store of either database may be kept."""
    if request.param == "sqlite":
        return Place(f"sqlite:///{tmp_path}/runs.db")
    return Place(request.getfixturevalue("database"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A healthy store in a file, made once a module."""
    return await made(tmp_path_factory.mktemp("kept") / "runs.db")
