"""What every test of this room begins with."""

from __future__ import annotations

import pytest

from tests.realtime import desk


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    desk.ran.clear()
