"""A browser for the tests of pages.

Playwright's calls that wait keep a loop of their own in this thread while the browser is there. So a file whose tests
use `browser` has plain functions only, no `async def`; what they need of an app they ask `Served.does`.
"""

import pytest
from playwright.sync_api import Browser

from tests.needs import missing
from tests.server.browsing import ONE, chromium


@pytest.fixture(scope="module")
def browser() -> Browser:
    """The chromium of all tests; without one they are skipped."""
    path = chromium()
    if path is None:
        pytest.skip(missing("chromium"))
    return ONE.get(path)
