"""A chromium of this machine, for tests and pictures of pages. No test is here.

Nothing is downloaded: the browser is the one that Debian's package `chromium` installs.
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


def chromium() -> str | None:
    """Return the path of the browser, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def launched(path: str) -> Generator[Browser]:
    """Start a browser without a window, and stop it at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()
