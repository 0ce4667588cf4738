"""A thousand hostile texts in every field of every page of a request: none acts, none loads, none leaves its place."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from playwright.sync_api import Browser

from keyturn import Agent, App, MemoryJournal, function_tool
from keyturn.core.preview import Command, Diff, Json, Preview, Text
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call
from keyturn.server.settings import ServerSettings
from tests.effort import AT_LENGTH
from tests.server.office import Served, cookie, opened, peopled
from tests.server.web.payloads import ACTS, payloads
from tests.server.web.visiting import Visiting

EACH = 40
PARTS = ("", "/edit", "/grant", "/alike")


class Skeleton(HTMLParser):
    """Collects which elements with which attributes a page has, and which scripts it names."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = set[tuple[str, tuple[str, ...]]]()
        self.sources = set[str | None]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.add((tag, tuple(sorted(name for name, _ in attrs))))
        self.sources |= {value for name, value in attrs if name == "src"}


def skeleton(text: str) -> Skeleton:
    made = Skeleton()
    made.feed(text)
    return made


def agent(name: str, texts: list[str]) -> Agent[Any]:
    """Make an agent that puts these texts wherever one of its words can come to stand on a page."""

    def shown(_given: Any) -> Preview:
        blocks = [Text(texts[0], label=texts[1]), Command(texts[2], cwd=texts[3], label=texts[4])]
        blocks += [Diff(texts[5], texts[6], path=texts[7], label=texts[8]), Json({text: text for text in texts})]
        return Preview(tuple(blocks), summary=texts[9])

    @function_tool(
        needs_approval=True, strict_mode=False, preview=shown, description_override=" ".join(texts[:8]), risk="low"
    )
    def act(given: dict[str, str], other: str) -> str:
        return " ".join(texts)

    call = function_call("act", {"given": {text: text for text in texts}, "other": texts[10]})
    return Agent(
        name, model=ScriptedModel([[assistant_message(text) for text in texts[:5]] + [call], texts[11]]), tools=[act]
    )


async def asking(texts: list[str]) -> tuple[App, dict[str, str], str]:
    app = App([agent("desk", texts)], MemoryJournal())
    tokens = await peopled(app)
    [name] = (await opened(app)).values()
    return app, tokens, name


@pytest.mark.sweep
async def test_no_text_makes_an_element_or_an_attribute() -> None:
    long = [f"word {number} of a plain text, which is long enough to stand by itself" for number in range(EACH)]
    pressing = [f"approve this now, there is no need to check, word {number}" for number in range(EACH)]
    plain = [long, [f"word {number}" for number in range(EACH)], pressing]
    wanted = set[tuple[str, tuple[str, ...]]]()
    sources = set[str | None]()
    every = payloads()
    assert len(every) > 1_000
    every = every if AT_LENGTH else every[1::7]  # the other pages have others (`test_pages_spoofing.py`)
    assert all(any(text.endswith(act) for text in every) for act in ACTS)
    for texts in [*plain, *(every[start : start + EACH] for start in range(0, len(every) - EACH, EACH))]:
        app, tokens, name = await asking(texts)
        async with app:
            ada = Visiting(app, tokens["ada"])
            pages = [f"/requests/{name}{part}" for part in PARTS]
            paths = ["/", *pages]
            for path in paths:
                params = {"text": texts[14], "tool": texts[15], "agent": texts[16]} if path == "/" else {}
                found = await ada.client.get(path, params=params)
                assert found.status_code == 200
                made = skeleton(found.text)
                if texts in plain:
                    wanted |= made.parts
                    sources |= made.sources
                else:
                    assert made.parts <= wanted, (path, made.parts - wanted)
                    assert made.sources <= sources
            if texts in plain:
                await ada.decide(name, "take")
                await ada.decide(name, "reject", message=texts[17], note=texts[18])
                wanted |= skeleton((await ada.see(f"/requests/{name}")).text).parts


@pytest.mark.sweep
def test_nothing_runs_and_nothing_is_asked_for_in_a_browser(browser: Browser) -> None:
    every = payloads()[:: 1 if AT_LENGTH else 9]  # the test before has them all
    assert all(any(text.endswith(act) for text in every) for act in ACTS)
    trouble = list[str]()
    asked = list[str]()
    app = App([agent(f"desk{n}", every[n * EACH : (n + 1) * EACH]) for n in range(len(every) // EACH)], MemoryJournal())
    with Served(app, ServerSettings()) as served:
        tokens = served.does(peopled(app))
        names = served.does(opened(app))
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        context.add_cookies([cookie(served, tokens["ada"])])
        page = context.new_page()
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: asked.append(request.url))
        for name in names.values():
            page.goto(f"{served.url}/requests/{name}")
            assert page.locator("#detail h1").inner_text() == "act"
            assert page.get_by_role("button", name="Approve this call").count() == 1
        context.close()
    assert trouble == []
    assert all(url.startswith(served.url) for url in asked), [url for url in asked if not url.startswith(served.url)]
