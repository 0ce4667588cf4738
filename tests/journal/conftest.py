"""The stores that tests of this room alter."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from .restoring import Place
from .tampered import Kept, made


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
