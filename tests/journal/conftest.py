"""The stores that tests of this room alter."""

from __future__ import annotations

import pytest
import pytest_asyncio

from .tampered import Kept, made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A healthy store in a file, made once a module."""
    return await made(tmp_path_factory.mktemp("kept") / "runs.db")
