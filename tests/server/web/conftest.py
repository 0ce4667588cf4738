"""One office for the flows of a file, with a window of each kind that they need: both are dear to open."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from tests.server.office import Clock
from tests.server.web.desk import Desk, desk


@pytest.fixture(scope="module")
def whole(browser: Browser) -> Generator[Desk]:
    """One office for all of these flows, with a window for each kind that they need: both are dear to open."""
    with desk(browser, "config", clock=Clock()) as made:
        made.clears()
        yield made


@pytest.fixture
def at(whole: Desk) -> Generator[Desk]:
    """The office with an empty inbox."""
    yield whole
    whole.clears()
    assert whole.trouble == []
