"""Everybody can use the pages beside the inbox: axe finds nothing, nothing scrolls sideways, and keys reach it all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from keyturn.server.settings import ServerSettings
from tests.server.busy import busy_app, lived_in
from tests.server.office import Served, cookie, peopled
from tests.server.web.test_access import TAGS

PATHS = ("/runs", "RUN", "/grants", "/agents", "/policies", "/policies?shadow=1", "/insights", "/audit", "/people")
MORE = ("/people/ben", "/channels", "/settings", "/connect", "/_components", "/runs?status=erased")


class Busy:
    """Serves the busy office to a browser."""

    def __init__(self, served: Served, token: str, runs: dict[str, str], browser: Browser) -> None:
        self.served = served
        self.runs = runs
        self._token = token
        self._browser = browser
        self._kept: dict[tuple[int, int], Page] = {}

    def window(self, size: tuple[int, int], scheme: Any = "light", **options: Any) -> Page:
        width, height = size
        view: Any = {"width": width, "height": height}
        context = self._browser.new_context(viewport=view, color_scheme=scheme, **options)
        context.set_default_timeout(15_000)
        context.add_cookies([cookie(self.served, self._token)])
        return context.new_page()

    def kept(self, size: tuple[int, int], scheme: Any) -> Page:
        """A window of this size that goes from page to page, for tests that change nothing in it."""
        if size not in self._kept:
            self._kept[size] = self.window(size, scheme)
        return self._kept[size]


@pytest.fixture(scope="module")
def busy(browser: Browser) -> Iterator[Busy]:
    """A busy office, its runs, and a browser that logged in."""
    app = busy_app()
    with Served(app, ServerSettings(development=True)) as served:
        tokens = served.does(peopled(app))
        yield Busy(served, tokens["ada"], served.does(lived_in(app)), browser)


@pytest.mark.trial
@pytest.mark.parametrize("path", [*PATHS, *MORE])
def test_axe_finds_nothing_and_nothing_scrolls_sideways(busy: Busy, path: str) -> None:
    where = busy.served.url + path.replace("RUN", f"/runs/{busy.runs['lead']}")
    for size, scheme in (((1280, 860), "light"), ((360, 740), "dark")):
        page = busy.kept(size, scheme)
        page.goto(where)
        found = Axe().run(page, options={"runOnly": {"type": "tag", "values": TAGS}})
        assert found.violations_count == 0, (path, size, found.generate_report())
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], path


@pytest.mark.trial
def test_a_run_is_cancelled_without_script_and_by_keys_alone(busy: Busy) -> None:
    page = busy.window((1280, 860), java_script_enabled=False)
    where = f"{busy.served.url}/runs/{busy.runs['keeper']}"
    page.goto(where)
    page.locator("summary", has_text="Cancel the run").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("not today")
    page.keyboard.press("Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url == where
    assert "cancelled" in page.inner_text("h1 + .now")
    page.context.close()


@pytest.mark.trial
def test_new_lines_of_a_run_are_said_and_move_nothing(busy: Busy) -> None:
    page = busy.window((1280, 860))
    run = busy.runs["lead"]
    page.goto(f"{busy.served.url}/runs/{run}")
    before = page.locator(".timeline > li").count()
    more = page.locator("#more-lines")
    page.wait_for_function("document.documentElement.classList.contains('js')")
    busy.served.does(busy.served.app.send(run, "Hurry up."))
    more.wait_for(state="visible")
    assert page.locator(".timeline > li").count() == before
    page.keyboard.press("n")
    page.wait_for_function(f"document.querySelectorAll('.timeline > li').length > {before}")
    page.context.close()
