"""Each run is tried plain, streamed and event by event; each history in hand and as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deferred import playing


@pytest.fixture(params=[playing.plain, playing.streamed, playing.as_events], ids=["plain", "streamed", "events"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[list, playing.elsewhere], ids=["in hand", "as JSON"])
def carry(request: pytest.FixtureRequest) -> Any:
    return request.param
