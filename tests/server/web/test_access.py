"""Everybody can use the pages: axe finds nothing, at any size, in light and dark, and at 200 %."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.server.web.desk import desk

TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]


ALL = ("ops", "support", "config", "asker", "treasury", "stranger")


@pytest.mark.parametrize(
    ("scheme", "size", "names"),
    [
        ("dark", (360, 740), ("support",)),
        pytest.param("dark", (360, 740), ALL, marks=pytest.mark.trial),
        pytest.param("light", (1280, 860), ALL, marks=pytest.mark.trial),
        pytest.param("dark", (640, 430), ALL, marks=pytest.mark.trial),
    ],
)
def test_axe_finds_nothing_on_the_inbox_and_requests(
    browser: Browser, scheme: Any, size: tuple[int, int], names: tuple[str, ...]
) -> None:
    with desk(browser, *names) as at:
        page = at.window(size=size, color_scheme=scheme)
        paths = ["/", *(f"/requests/{at.asked[name]}" for name in at.asked)]
        paths += [f"/requests/{at.asked['support']}/{part}" for part in ("edit", "grant", "alike") if names == ALL]
        for path in paths:
            page.goto(at.served.url + path)
            found = Axe().run(page, options={"runOnly": {"type": "tag", "values": TAGS}})
            assert found.violations_count == 0, (path, found.generate_report())
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0], path
