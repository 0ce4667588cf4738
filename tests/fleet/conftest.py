"""The engines under which a fleet is tried as processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from keyturn.support.lazy import is_installed

from .temporal_server import lacks, temporal_server


@pytest.fixture(params=["journal", "dbos", "temporal"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[str, str]]:
    """The name of an engine, and the URL of its server."""
    package = {"journal": "keyturn", "dbos": "dbos", "temporal": "temporalio"}[request.param]
    if not is_installed(package):
        pytest.skip(f"{package} is not installed: pip install 'keyturn[{request.param}]'")
    if request.param != "temporal":
        yield request.param, ""
        return
    if missing := lacks():
        pytest.skip(missing)
    async with temporal_server(tmp_path) as url:
        yield request.param, url
