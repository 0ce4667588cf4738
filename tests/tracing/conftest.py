"""Each test has its own provider and its own key."""

from __future__ import annotations

import pytest

from tests.tracing.watching import Seen


@pytest.fixture(autouse=True)
def _own_key(own_key: None) -> None:
    """No test reads or makes the user's own key, and none remembers another's logs."""


@pytest.fixture
def seen() -> Seen:
    """Nothing, so far."""
    return Seen()
