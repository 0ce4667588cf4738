"""In a browser: who approves looks as long as it takes, and edits, answers and questions are signed by a passkey."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from keyturn import Agent, App, Approval, MemoryJournal, function_tool
from keyturn.audit.checker import check
from keyturn.core.events import CallDecided
from keyturn.engine.run.log_cache import log_in
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.server.settings import ServerSettings
from tests.server.identity.test_passkeys import Device
from tests.server.office import Served, opened, peopled
from tests.waiting import until


def agent(name: str, call: Any, tool: Any) -> Agent[Any]:
    def says(request: ModelRequest) -> Any:
        return "Done." if tool_outputs(request) else [call]

    return Agent(name, model=ScriptedModel(says), tools=[tool])


@function_tool(needs_approval=True, approval=Approval(signed=True))
def wire(to: str, amount: int) -> str:
    """Wire money."""
    return f"wired {amount} to {to}"


@function_tool(needs_approval=True, approval=Approval(min_look="3s"))
def erase(table: str) -> str:
    """Erase a table."""
    return f"erased {table}"


def bank() -> App:
    made = [
        agent("treasury", function_call("wire", {"to": "ann", "amount": 5}), wire),
        agent("eraser", function_call("erase", {"table": "orders"}), erase),
    ]
    return App(made, MemoryJournal())


@contextmanager
def staffed(
    browser: Browser, *names: str, settings: ServerSettings | None = None
) -> Generator[tuple[Served, Device, dict[str, str]]]:
    with Served(bank(), settings) as served:
        tokens = served.does(peopled(served.app))
        asked = served.does(opened(served.app, *names))
        device = Device(browser, served)
        device.comes_in(tokens["ada"])
        try:
            yield served, device, asked
        finally:
            device.context.close()
        assert device.trouble == []


def keyed(device: Device) -> None:
    device.enrols("ada's laptop")
    device.page.get_by_role("button", name="Let it sign decisions").click()
    expect(device.page.get_by_text("signs decisions").first).to_be_visible()


def ended(served: Served, request: str) -> Any:
    async def row_of_it() -> Any:
        row = await served.app.inbox.get(request)
        return row if row.state != "open" else None

    return served.does(until(row_of_it))


@pytest.mark.trial
def test_the_button_opens_once_it_was_looked_at(own_key: None, browser: Browser) -> None:
    with staffed(browser, "eraser") as (served, device, asked):
        page = device.sees(f"/requests/{asked['eraser']}")
        button = page.get_by_role("button", name="Approve this call")
        expect(button).to_be_disabled()
        look = page.get_by_text("View it for at least 3 s before you approve it")
        expect(look.filter(has_text="2 s left.")).to_be_visible()
        page.keyboard.press("a")
        assert served.does(served.app.inbox.get(asked["eraser"])).state == "open"
        expect(button).to_be_enabled()
        expect(look).to_be_hidden()
        button.click()
        assert ended(served, asked["eraser"]).state == "approve"


@pytest.mark.trial
def test_without_script_a_look_is_a_button(own_key: None, browser: Browser) -> None:
    with staffed(browser, "eraser") as (served, device, asked):
        context = browser.new_context(java_script_enabled=False)
        kept: Any = device.context.cookies()
        context.add_cookies(kept)
        page = context.new_page()
        page.goto(f"{served.url}/requests/{asked['eraser']}")
        page.get_by_role("button", name="I am viewing it").click()
        expect(page.get_by_role("button", name="I am viewing it")).to_have_count(0)
        page.wait_for_timeout(3_100)
        page.get_by_role("button", name="Approve this call").click()
        assert ended(served, asked["eraser"]).state == "approve"
        context.close()


@pytest.mark.trial
def test_an_edit_is_signed_as_it_was_drawn(own_key: None, browser: Browser) -> None:
    undoable = ServerSettings(undo="1s", undo_high_risk=True)
    with staffed(browser, "treasury", settings=undoable) as (served, device, asked):
        keyed(device)
        page = device.sees(f"/requests/{asked['treasury']}/edit")
        expect(page.get_by_text("Your passkey signs it: ada's laptop")).to_be_visible()
        page.locator("[name='arg.to']").fill("bob")
        expect(page.get_by_text("What will run")).to_be_visible()
        page.get_by_role("button", name="Approve with these arguments").click()
        row = ended(served, asked["treasury"])
        assert row.state == "edit"
        result: Any = served.does(served.app.result(row.run, 20))
        assert result.final_output == "Done."
        page.wait_for_url(f"**/requests/{asked['treasury']}")
        expect(page.get_by_text("wired 5 to bob")).to_be_visible()
        log = served.does(log_in(served.app.journal, row.run))
        [signed] = [event.decision for step in log.steps for event in step.events if isinstance(event, CallDecided)]
        assert (signed.undo_ms, signed.proof is not None) == (1_000, True), "the time to undo is part of what is signed"
        assert served.does(check(served.app.journal)).ok


@pytest.mark.trial
def test_a_question_back_and_an_answer_are_signed(own_key: None, browser: Browser) -> None:
    with staffed(browser, "treasury", "treasury") as (served, device, asked):
        keyed(device)
        [other] = [row for row in served.does(served.app.inbox.list()) if row.id != asked["treasury"]]
        page = device.sees(f"/requests/{asked['treasury']}")
        page.locator("summary[aria-label='More actions']").click()
        page.get_by_role("button", name="Ask the agent a question").click()
        page.locator("[data-words] textarea").fill("Who is ann?")
        page.get_by_role("button", name="Ask the agent").click()
        assert ended(served, asked["treasury"]).state == "asked_back"
        expect(page.locator(".sentence.ended")).to_be_visible()
        words = {"request": other.id, "digest": other.digest, "revision": 1, "verdict": "answer", "output": "by hand"}
        device.sees("/account")
        assert device.asks("/sign/options", {**words, "revision": 2})[0] == 409
        status, options = device.asks("/sign/options", words)
        assert status == 200
        assert device.asks("/sign", {**words, "credential": device.signs(options)})[0] == 200
        assert ended(served, other.id).state == "answer"
        device.trouble.clear()  # a browser says of each refusal that there was one
        assert served.does(check(served.app.journal)).ok
