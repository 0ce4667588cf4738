"""The page of the realtime example in a chromium whose microphone is a machine's: seen, pressed and heard."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from examples.realtime.support import scripted
from keyturn.testing.loopback.realtime import Call, Say
from tests.examples.calling import TOKEN, Office, office
from tests.needs import missing
from tests.server.browsing import ONE, chromium

FAKE = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]
DESKTOP, PHONE = (1280, 800), (360, 740)
REFUNDED = "Good news: we have refunded 49.00 euros for A-1042."
HOSTILE = "</bdi><img src=x onerror=document.title='owned'><script>document.title='owned'</script>\u202e\u200b"
PICTURES = os.environ.get("KEYTURN_PICTURES")  # a folder to put pictures into


@pytest.fixture(scope="module")
def browser() -> Browser:
    path = chromium()
    if path is None:
        pytest.skip(missing("chromium"))
    return ONE.get(path, *FAKE)


@contextmanager
def opened(
    browser: Browser, folder: Path, script: Any = scripted, size: tuple[int, int] = DESKTOP, **options: Any
) -> Generator[tuple[Page, Office]]:
    """The page of a call in the browser, and what serves it; nothing may go wrong in it or come from elsewhere."""
    with office(folder / "calls.db", script) as served:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        context.set_default_timeout(20_000)
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("request", lambda asked: None if served.host in asked.url else wrong.append(asked.url))
        page.goto(f"{served.url}/?token={TOKEN}")
        expect(page.locator("#state")).to_have_text("connected")
        try:
            yield page, served
            assert wrong == []
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        finally:
            context.close()


@pytest.fixture(autouse=True)
def own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-these-tests")


def say(page: Page, text: str) -> None:
    page.get_by_label("Write to the agent").fill(text)
    page.get_by_label("Write to the agent").press("Enter")


def line(page: Page, text: str | re.Pattern[str]) -> Any:
    return page.locator("#lines li").filter(has_text=text).first


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


def asks(page: Page) -> Any:
    return page.get_by_role("dialog")


@pytest.mark.trial
def test_a_refund_is_approved_by_keyboard_alone_also_after_a_reload(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path) as (page, _served):
        say(page, "Where is my order A-1042?")
        expect(line(page, "a blue kettle, delivered on Monday.")).to_be_visible()
        say(page, "It leaks. Please refund it.")
        expect(asks(page)).to_contain_text("support asks: may this run?")
        expect(page.get_by_label("Write to the agent")).to_be_focused()  # who writes is not pulled away
        expect(line(page, "I have just asked")).to_be_visible()
        expect(page.locator("#shown")).to_contain_text('"cents": 4900')
        picture(page, "realtime")
        address = page.url
        assert "?run=" in address
        page.reload()
        expect(line(page, "Please refund it.")).to_be_visible()
        expect(asks(page)).to_be_visible()
        assert page.url == address
        page.get_by_role("checkbox", name="Always").focus()
        for name in ("Why not, for the agent to read", "Reject", "Approve"):
            page.keyboard.press("Tab")
            expect(page.locator(":focus")).to_have_accessible_name(name)
        page.keyboard.press("Enter")
        expect(page.locator("#outcome")).to_contain_text("This was approved by")
        expect(line(page, REFUNDED)).to_be_visible()
        page.keyboard.press("Enter")  # the focus went to "Put this away"
        expect(asks(page)).to_be_hidden()


@pytest.mark.trial
def test_the_microphone_is_heard_and_drawn_and_what_the_agent_says_as_well(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, permissions=["microphone"]) as (page, served):
        button = page.get_by_role("button", name="Microphone on")
        button.click()
        expect(page.get_by_role("button", name="Microphone off")).to_have_attribute("aria-pressed", "true")
        served.does(served.model.received("input_audio_buffer.append", 20, 20))
        assert served.model.line.ear.received > 20 * 1_000
        served.does(served.model.sent("input_audio_buffer.speech_started", 1, 20))  # the device beeps: that is speech
        expect(page.locator("#yours")).not_to_have_attribute("data-level", "0.000")
        page.get_by_role("button", name="Microphone off").click()
        expect(button).to_have_attribute("aria-pressed", "false")
        expect(line(page, "Where is my order A-1042?")).to_be_visible()
        expect(line(page, "a blue kettle, delivered on Monday.")).to_be_visible()
        expect(page.locator("#theirs")).not_to_have_attribute("data-level", "0.000")
        picture(page, "realtime-speaking")


@pytest.mark.trial
def test_text_that_a_model_wrote_stays_text(browser: Browser, tmp_path: Path) -> None:
    arguments = {"order": HOSTILE, "cents": 1, "reason": "x" * 3_000 + "the end"}
    script = [[Say(HOSTILE), Call("refund", arguments)], "I wait.", "Well."]
    with opened(browser, tmp_path, script) as (page, _served):
        title = page.title()
        say(page, HOSTILE)
        expect(asks(page)).to_be_visible()
        shown = page.locator("#shown").text_content() or ""
        assert "<script>document.title='owned'</script>\\u{202e}\\u{200b}" in shown.replace("\\\\", "\\")
        assert shown.count("x") >= 3_000
        expect(line(page, "x" * 100)).to_have_count(0)  # arguments are shown in one place, where secrets are redacted
        assert "the end" in shown
        assert page.locator("main img, main script").count() == 0
        assert page.title() == title


def seen(page: Page, locator: Any) -> bool:
    """Whether the middle of an element is on the screen and nothing lies over it."""
    return locator.evaluate(
        """element => { const { left, top, width, height } = element.getBoundingClientRect();
        return element.contains(document.elementFromPoint(left + width / 2, top + height / 2)) }"""
    )


def accessible(page: Page) -> None:
    found = Axe().run(page, options={"runOnly": {"type": "tag", "values": TAGS}})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.trial
def test_on_a_phone_what_waits_is_decided_by_tap_and_covers_no_text_field(browser: Browser, tmp_path: Path) -> None:
    """Who is asked goes on talking: the field, its button and the words said last are there beside the question."""
    phone: Any = {"size": PHONE, "has_touch": True, "is_mobile": True, "color_scheme": "dark"}
    with opened(browser, tmp_path, **phone) as (page, served):
        say(page, "Please refund it.")
        expect(asks(page)).to_be_visible()
        expect(line(page, "I have just asked")).to_be_visible()
        accessible(page)
        picture(page, "realtime-phone")
        field = page.get_by_label("Write to the agent")
        for name in ("Approve", "Reject"):
            button = page.get_by_role("button", name=name)
            assert seen(page, button)
            box = button.bounding_box()
            assert box is not None
            assert box["height"] >= 44
            assert box["y"] + box["height"] <= PHONE[1]
        for height in (PHONE[1], 560):
            page.set_viewport_size({"width": PHONE[0], "height": height})
            for part in (field, *(page.get_by_role("button", name=name) for name in ("Send", "Interrupt"))):
                assert seen(page, part)
            assert seen(page, line(page, "I have just asked").locator(".words"))
        field.tap()
        field.fill("Where is my order A-1042?")
        page.get_by_role("button", name="Send").tap()
        expect(line(page, "a blue kettle, delivered on Monday.")).to_be_attached()
        expect(asks(page)).to_be_visible()
        page.get_by_label("Why not").fill("Send it back first.")
        page.get_by_label("Why not").press("Enter")
        expect(page.get_by_role("button", name="Reject")).to_be_enabled()  # Enter decides nothing
        page.get_by_role("button", name="Reject").tap()
        expect(page.locator("#outcome")).to_contain_text("This was rejected by")
        expect(line(page, "not agreed to: Send it back first.")).to_be_attached()
        page.get_by_role("button", name="Put this away").tap()
        expect(asks(page)).to_be_hidden()
        decided_in_the_inbox(page, served)


def decided_in_the_inbox(page: Page, served: Office) -> None:
    """Who decides in the inbox is named on the page."""
    say(page, "Please refund it.")
    expect(asks(page)).to_be_visible()
    inbox = served.calls.app.inbox
    [row] = served.does(inbox.list())
    expect(page.get_by_role("link", name="See it in the inbox")).to_have_attribute("href", f"inbox/requests/{row.id}")
    served.does(inbox.reject(row, by="ann", message="Not today."))
    expect(page.locator("#outcome")).to_have_text("This was rejected by ann.")
    expect(page.get_by_role("button", name="Approve")).to_be_hidden()


@pytest.mark.trial
@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        ("light", DESKTOP),
        ("dark", DESKTOP),
        ("light", PHONE),
        ("dark", PHONE),
    ],
)
def test_axe_finds_nothing(browser: Browser, tmp_path: Path, scheme: Any, size: tuple[int, int]) -> None:
    with opened(browser, tmp_path, size=size, color_scheme=scheme) as (page, _served):
        for text in ("", "Please refund it."):
            if text:
                say(page, text)
                expect(asks(page)).to_be_visible()
                expect(line(page, "I have just asked")).to_be_attached()
            accessible(page)
        picture(page, f"realtime-{scheme}-{size[0]}")


@pytest.mark.trial
def test_the_model_is_told_how_much_of_its_voice_was_played(browser: Browser, tmp_path: Path) -> None:
    words = " ".join(["word"] * 40)  # about seven seconds, which come at once
    played: list[float] = []

    def sent(frame: Any) -> None:
        said = json.loads(frame) if isinstance(frame, str) else {}
        played.extend([said["ms"]] if said.get("type") == "played" else [])

    with opened(browser, tmp_path, lambda _line: Say(words, 180)) as (page, served):
        page.on("websocket", lambda socket: socket.on("framesent", sent))
        page.reload()
        expect(page.locator("#state")).to_have_text("connected")
        say(page, "Please talk.")
        expect(page.locator("#theirs")).not_to_have_attribute("data-level", "0.000")
        page.wait_for_timeout(1_200)
        page.get_by_role("button", name="Interrupt").click()
        served.does(served.model.received("conversation.item.truncate", 1, 20))
        [cut] = [message for message in served.model.messages if message["type"] == "conversation.item.truncate"]
        assert 300 < cut["audio_end_ms"] < 4_000
        assert abs(sum(played) - cut["audio_end_ms"]) < 50
