"""An office that a browser opens, with windows of its people. No test is here."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

from keyturn import App, MemoryJournal
from tests.server.office import Clock, Served, cookie, office, opened, peopled


class Desk:
    """An office that is served, and windows of its people."""

    def __init__(
        self, browser: Browser, served: Served, tokens: dict[str, str], asked: dict[str, str], clock: Any = None
    ) -> None:
        self._browser, self._contexts = browser, list[Any]()
        self.served, self.tokens, self.asked, self.clock = served, tokens, asked, clock
        self.trouble = list[str]()
        self._windows: dict[Any, Page] = {}

    def asks(self, *agents: str) -> None:
        """Open requests of these agents, beside those that are open."""
        self.asked.update(self.served.does(opened(self.served.app, *agents)))

    def window(self, person: str = "ada", path: str = "/", size: tuple[int, int] = (1280, 860), **options: Any) -> Page:
        """Go to a page in the window of a person, of this kind; what its console complains of is kept."""
        kind = (person, size, *sorted((name, str(value)) for name, value in options.items()))
        if kind not in self._windows:
            self._windows[kind] = self._new(person, size, options)
        page = self._windows[kind]
        page.goto(self.served.url + path)
        return page

    def _new(self, person: str, size: tuple[int, int], options: dict[str, Any]) -> Page:
        context = self._browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        context.set_default_timeout(15_000)
        context.add_cookies([cookie(self.served, self.tokens[person])])
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: self.trouble.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        return page

    def clears(self) -> None:
        """Cancel every run with a request."""
        for row in self.served.does(self.served.app.inbox.list()):
            self.served.does(self.served.app.cancel(row.run))

    def state(self, agent: str) -> str:
        return str(self.served.does(self.served.app.inbox.get(self.asked[agent])).state)

    def looks(self, agent: str) -> list[str]:
        row = self.served.does(self.served.app.inbox.get(self.asked[agent]))
        return [look.by for look in row.request.looked]

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@contextmanager
def desk(browser: Browser, *names: str, clock: Clock | None = None, channels: Any = ()) -> Generator[Desk]:
    app = App(office(), MemoryJournal(clock), channels=channels)
    with Served(app) as served:
        tokens = served.does(peopled(app))
        made = Desk(browser, served, tokens, served.does(opened(app, *names)), clock)
        try:
            yield made
        finally:
            made.close()
        assert made.trouble == []
