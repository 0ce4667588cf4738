"""A chromium of this machine, for tests and pictures of pages. No test is here.

Nothing is downloaded: Debian's packages install it. The headless shell does the same for half the
processor time.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator

from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium(*, whole: bool = False) -> str | None:
    """Return the path of the browser, or None where there is none; the headless shell shows no notifications."""
    names = ("chromium", "chromium-browser") if whole else ("chromium-headless-shell", "chromium", "chromium-browser")
    return next(filter(None, map(shutil.which, names)), None)


@contextlib.contextmanager
def launched(path: str) -> Generator[Browser]:
    """Start a browser without a window, and stop it at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()
