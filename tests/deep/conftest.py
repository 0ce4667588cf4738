"""Every test here runs plain and streamed where it takes `play`, under a key of its own."""

from __future__ import annotations

import pytest

from tests.deep.playing_deep import Play, listening, plainly

pytestmark = pytest.mark.usefixtures("own_key")


@pytest.fixture(autouse=True)
def _keyed(own_key: None) -> None:
    """Use a key of the test's own."""


@pytest.fixture(params=[plainly, listening], ids=["plain", "streamed"])
def play(request: pytest.FixtureRequest) -> Play:
    """Run a deep agent, in both ways that there are."""
    return request.param
