"""Take pictures of each page in the states that matter, and put them on one sheet: `make pictures`. No test is here.

The pictures are in build/pictures, the sheet in build/pictures/sheet.png and, to click through, index.html. With
`--manual` those of the manual are replaced as well.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page
from playwright.sync_api import Error as PlaywrightError

from keyturn import App, MemoryJournal
from keyturn.core.errors import KeyturnError
from keyturn.directory.login import Login
from keyturn.journal.rows import RequestRow
from tests.server.browsing import chromium, launched
from tests.server.office import Clock, Served, cookie, office, opened, peopled

OUT = Path("build/pictures")
DESKTOP, PHONE, LARGE_PHONE = (1280, 800), (360, 740), (412, 915)
#: The browser's zoom of 200 %: half as many CSS pixels, each twice as large.
ZOOMED = (640, 400)
#: The pictures of the manual, by their names in docs/img.
MANUAL = {
    "web-request": "request-high",
    "web-diff": "request-diff-dark",
    "web-conflict": "conflict",
    "web-insights": "insights",
    "web-phone-inbox": "inbox-many-phone-360",
    "web-phone-request": "request-quorum-phone",
}
_LEVEL_PAGES = (
    "runs",
    "grants",
    "agents",
    "policies",
    "insights",
    "audit",
    "people",
    "channels",
    "settings",
    "connect",
    "_components",
)


@dataclass
class Scene:
    """An office that is served, and the pictures that were taken of it."""

    browser: Browser
    served: Served
    tokens: dict[str, str]
    asked: dict[str, str]
    clock: Clock
    taken: list[Path] = field(default_factory=list[Path])

    def take(
        self,
        name: str,
        path: str = "/",
        size: tuple[int, int] = DESKTOP,
        *,
        person: str | None = "ada",
        first: Callable[[Page], object] | None = None,
        deaf: bool = False,
        **options: Any,
    ) -> None:
        """Take one picture of a page as somebody sees it, `deaf` to what changes; one that is not there is left out."""
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        context.set_default_timeout(20_000)
        if person is not None:
            context.add_cookies([cookie(self.served, self.tokens[person])])
        if deaf:
            context.route("**/live*", lambda route: route.abort())
        page = context.new_page()
        answer = page.goto(self.served.url + path, wait_until="load")
        if answer is not None and answer.status < 400:
            if first is not None:
                try:
                    first(page)
                except PlaywrightError as error:  # the picture shows how far it came
                    print(f"{name}: {error}", file=sys.stderr)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                print(f"{name}: {wide} px wider than its screen", file=sys.stderr)
            self.taken.append(OUT / f"{name}.png")
            page.screenshot(path=self.taken[-1], full_page=False)
        context.close()

    def request(self, agent: str) -> str:
        """Return the path of an agent's request."""
        return f"/requests/{self.asked[agent]}"

    def says(self, word: str, agent: str, **more: Any) -> None:
        """Have ben say something of a request while others look at it."""
        inbox = self.served.app.inbox
        row = self.served.does(inbox.get(self.asked[agent]))
        self.served.does(getattr(inbox, word)(row, by=Login("ben"), **more))


@contextmanager
def scene(browser: Browser, taken: list[Path], *names: str) -> Generator[Scene]:
    """Serve an office in which these agents ask."""
    clock = Clock()
    app = App(office(), MemoryJournal(clock))
    with Served(app) as served:
        tokens = served.does(peopled(app))
        asked: dict[str, str] = served.does(opened(app, *names)) if names else {}
        yield Scene(browser, served, tokens, asked, clock, taken)


def few(browser: Browser, taken: list[Path]) -> None:
    """Take an inbox without a request, with one, and with ten thousand."""
    with scene(browser, taken) as at:
        at.take("inbox-empty")
        at.take("inbox-empty-phone", size=PHONE)
        at.take("login", "/login", person=None)
        at.take("login-phone", "/login", PHONE, person=None)
        at.take("enter", "/enter", person=None)
        journal: Any = at.served.app.journal  # ten thousand runs would take minutes
        journal._mine.rows.requests.update({row.id: row for row in (_row(number) for number in range(10_000))})
        at.take("inbox-ten-thousand")
        at.take("inbox-ten-thousand-phone", size=PHONE)
    with scene(browser, taken, "support") as at:
        at.take("inbox-one")


def _row(number: int) -> RequestRow:
    body = json.dumps({"params": {"order": f"A-{number}", "amount": number % 400}})
    return RequestRow(
        f"{number:032x}", "run", f"r/{number}.0", "approval", "refund", "support", "d" * 64, number, body=body
    )


def many(browser: Browser, taken: list[Path]) -> None:
    """Take everything that waits, in each light, and each request on a desk and on a phone."""
    with scene(browser, taken, *[agent.name for agent in office()]) as at:
        at.take("inbox-many")
        at.take("inbox-many-dark", color_scheme="dark")
        at.take("inbox-many-forced-colours", forced_colors="active")
        at.take("inbox-many-phone-360", size=PHONE)
        at.take("inbox-many-phone-412", size=LARGE_PHONE)
        at.take("inbox-many-zoomed", size=ZOOMED, device_scale_factor=2)
        for agent, what in {
            "ops": "high", "ci": "command", "support": "quorum", "config": "diff", "sql": "long", "asker": "question",
            "stranger": "hostile", "treasury": "signed", "db": "json",
        }.items():  # fmt: skip
            at.take(f"request-{what}", at.request(agent))
            at.take(f"request-{what}-phone", at.request(agent), PHONE)
        at.take("request-diff-dark", at.request("config"), color_scheme="dark")
        at.take("request-command-forced-colours", at.request("ci"), forced_colors="active")
        at.take("request-hostile-zoomed", at.request("stranger"), ZOOMED, device_scale_factor=2)
        at.take("request-not-mine", at.request("ops"), person="ben")
        at.take("request-edit", at.request("notices") + "/edit")
        at.take("request-edit-phone", at.request("notices") + "/edit", PHONE)
        at.take("request-grant", at.request("notices") + "/grant")
        at.take("request-alike", at.request("notices") + "/alike")
        for name in _LEVEL_PAGES:
            at.take(f"page-{name}", f"/{name}")
            at.take(f"page-{name}-phone", f"/{name}", PHONE)


def insights(browser: Browser, taken: list[Path]) -> None:
    """Take the page of insights after two weeks of decisions."""
    with scene(browser, taken) as at:
        at.served.does(_two_weeks(at.served.app, at.clock))
        at.take("insights", "/insights")
        at.take("insights-dark", "/insights", color_scheme="dark")
        at.take("insights-phone", "/insights", PHONE)


async def _two_weeks(app: App, clock: Clock) -> None:
    """Let people decide some requests on each of fourteen days: some at once, some rejected, some after hours."""
    for day in range(14):
        for number, agent in enumerate(("notices", "config", "db", "ci", "notices")[: 2 + day % 4]):
            run = await app.start(agent, "Do your work.", requester="cyd")
            await app.wait(run.id, 20)
            [row] = await app.inbox.list(run=run.id)
            clock.now += (4, 35, 90, 1_200, 9)[number] * 1_000 + day * 2_500
            by = "ben" if agent == "notices" else "ada"
            if (day + number) % 6 == 5:
                await app.inbox.reject(row, by=by, message="Not this week.")
            else:
                await app.inbox.approve(row, by=by)
            await app.wait(run.id, 20)
        clock.now += 24 * 3_600_000


def ended(browser: Browser, taken: list[Path]) -> None:
    """Take requests that somebody else decided, that ran out of time, that were decided here."""
    with scene(browser, taken, "notices", "support", "ops", "ci") as at:
        at.take("gone-while-looking", at.request("notices"), first=lambda page: _gone(at, page))
        at.take("decided", at.request("notices"))
        at.take("conflict", at.request("ci"), deaf=True, first=lambda page: _conflict(at, page))
        at.says("approve", "support")
        at.take("vote-of-two", at.request("support"))
        at.clock.now += 20 * 60_000
        at.take("out-of-time", at.request("ops"))
        at.take("out-of-time-phone", at.request("ops"), PHONE)
        at.take("offline", at.request("support"), first=_offline)


def calls(taken: list[Path]) -> None:
    """Take the pictures of the example of a call, while its tests run."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/examples/test_realtime_page.py"],
        env={**os.environ, "KEYTURN_PICTURES": str(OUT)},
        check=True,
    )
    taken += sorted({*OUT.glob("*.png")} - {*taken})


def _gone(at: Scene, page: Page) -> None:
    at.says("reject", "notices", message="Not today.")
    page.wait_for_timeout(1_500)


def _conflict(at: Scene, page: Page) -> None:
    at.says("reject", "ci", message="Never force main.")
    page.get_by_role("button", name="Reject").first.click()
    page.get_by_label("Reason, for the model to read").fill("No.")
    page.get_by_role("button", name="Reject this call").click()
    page.wait_for_timeout(1_500)


def _offline(page: Page) -> None:
    page.context.set_offline(True)
    page.wait_for_timeout(3_000)


def sheet(browser: Browser, taken: list[Path]) -> None:
    """Put all pictures on one sheet."""
    figures = "".join(
        f'<figure><a href="{path.name}"><img src="{path.name}"></a>'
        f"<figcaption>{html.escape(path.stem)}</figcaption></figure>"
        for path in taken
    )
    style = (
        "body{font:13px ui-sans-serif,system-ui;margin:16px;background:#ddd;display:flex;flex-wrap:wrap;gap:12px}"
        "figure{margin:0}img{height:340px;border:1px solid #999;background:#fff;display:block}figcaption{padding:4px 0}"
    )
    index = OUT / "index.html"
    index.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{figures}", encoding="utf-8")
    page = browser.new_page(viewport={"width": 1900, "height": 1000})
    page.goto(index.resolve().as_uri())
    page.screenshot(path=OUT / "sheet.png", full_page=True)
    page.close()


def main() -> int:
    """Take all pictures; return 1 where there is no browser."""
    path = chromium()
    if path is None:
        print("there is no chromium here (Debian: chromium-headless-shell)", file=sys.stderr)
        return 1
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    taken = list[Path]()
    with launched(path) as browser:
        for series in (few, many, insights, ended):
            try:
                series(browser, taken)
            except KeyturnError as error:
                print(f"{series.__name__}: {error}", file=sys.stderr)
        calls(taken)
        sheet(browser, taken)
    if "--manual" in sys.argv:
        for name, taken_as in MANUAL.items():
            shutil.copy(OUT / f"{taken_as}.png", Path("docs/img") / f"{name}.png")
    print(f"{len(taken)} pictures: {OUT / 'sheet.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
