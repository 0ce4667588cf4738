"""A chromium of this machine, for tests and pictures of pages. No test is here.

Nothing is downloaded: Debian's packages install it. The headless shell does the same for half the
processor time.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator

from playwright.sync_api import Browser, expect, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

expect.set_options(timeout=20_000)  # what is expected comes at once, but on a busy machine


def chromium(*, whole: bool = False) -> str | None:
    """Return the path of the browser, or None where there is none; the headless shell shows no notifications."""
    names = ("chromium", "chromium-browser") if whole else ("chromium-headless-shell", "chromium", "chromium-browser")
    return next(filter(None, map(shutil.which, names)), None)


class OneBrowser:
    """Keeps a browser for the tests that use one, of whatever file; another kind of browser takes its place.

    `tests/conftest.py` lets those tests follow one another, and closes it before any other: in this thread it keeps a
    loop at work, in which no other can be.
    """

    def __init__(self) -> None:
        self._kind: tuple[str, ...] = ()
        self._open = contextlib.ExitStack()
        self._browser: Browser | None = None

    def get(self, path: str, *more: str) -> Browser:
        """Return it, started with these arguments as well."""
        if self._browser is None or self._kind != (path, *more) or not self._browser.is_connected():
            self.close()
            self._kind = (path, *more)
            self._browser = self._open.enter_context(launched(path, *more))
        return self._browser

    def close(self) -> None:
        """Stop it, if it runs."""
        self._browser = None
        self._open.close()


ONE = OneBrowser()


@contextlib.contextmanager
def launched(path: str, *more: str) -> Generator[Browser]:
    """Start a browser without a window, and stop it at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *more], timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()
