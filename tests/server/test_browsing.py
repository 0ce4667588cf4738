"""The browser that the tests of pages use: the office's inbox opens in it, and asks no other host for anything."""

from playwright.sync_api import Page, Request

from tests.server.office import cookie, staffed


def test_the_inbox_opens_and_asks_no_other_host(tab: Page) -> None:
    asked = list[str]()

    def note(request: Request) -> None:
        asked.append(request.url)

    tab.on("request", note)
    with staffed("support") as (served, tokens, _asked):
        tab.context.add_cookies([cookie(served, tokens["ada"])])
        tab.goto(served.url)
        tab.get_by_role("link", name="refund").first.wait_for()
        tab.close()
    assert asked
    assert all(url.startswith(served.url) for url in asked)
