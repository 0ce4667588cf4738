"""The page Connect: its token is good for asking alone and is shown once, and a test request goes the whole way."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from keyturn import App, ExternalAgent, MemoryJournal
from keyturn.server.web.connect import DOORS
from tests.server.office import peopled
from tests.server.web.visiting import Visiting

pytestmark = pytest.mark.usefixtures("own_key")


async def sent(visit: Visiting, path: str, **form: str) -> Any:
    """The answer to a form of the page."""
    mark = (await visit.fields("/connect"))["csrf_token"]
    return await visit.send(path, {"csrf_token": mark, **form})


async def test_a_token_is_issued_to_a_service_account_shown_once_and_good_for_asking_alone() -> None:
    async with App([ExternalAgent()], MemoryJournal()) as app:
        ada = Visiting(app, (await peopled(app))["ada"])
        before = html.unescape((await ada.see("/connect")).text)
        assert "keyturn hook install claude-code --server http://localhost" in before
        answer = html.unescape((await sent(ada, "/connect", account="laptop", expires="7d")).text)
        [token] = set(re.findall(r"kt_[\w-]+", answer))
        for door in DOORS:
            assert token in (lines := door.lines.format(server="http://localhost", token=token)), door.name
            assert lines in answer, door.name
        assert token not in (await ada.see("/connect")).text
        laptop = Visiting(app, token, program=True)
        asked = await laptop.client.post("/v1/asks", json={"key": "k", "tool": "deploy"})
        assert (asked.status_code, (await laptop.see("/v1/requests")).status_code) == (200, 403)
        assert (await sent(ada, "/connect", account="ben")).status_code == 403, "it is theirs to issue"
        assert [each.id for each in await app.people.list() if each.kind == "machine"].count("laptop") == 1


async def test_who_does_not_administer_sees_the_lines_and_issues_and_sends_nothing() -> None:
    async with App([ExternalAgent()], MemoryJournal()) as app:
        ben = Visiting(app, (await peopled(app))["ben"])
        text = (await ben.see("/connect")).text
        assert "An administrator issues tokens" in text
        assert 'action="/connect' not in text
        mark = {"csrf_token": (await ben.fields("/runs"))["csrf_token"]}
        for path, form in (("/connect", {"account": "laptop"}), ("/connect/test", {"do": "send"})):
            assert (await ben.send(path, mark | form)).status_code == 403, path
        assert (await app.people.directory()).person("laptop") is None
        assert await app.inbox.list() == []


async def test_a_test_request_is_decided_in_the_inbox_then_claimed_and_reported() -> None:
    async with App([ExternalAgent()], MemoryJournal()) as app:
        ada = Visiting(app, (await peopled(app))["ada"])
        where = (await sent(ada, "/connect/test", do="send")).headers["location"]
        test = where.partition("?test=")[2].partition("#")[0]
        [row] = await app.inbox.list()
        assert f"/requests/{row.id}" in (await ada.see(where)).text
        early = await sent(ada, "/connect/test", do="claim", test=test)
        assert (early.status_code, (await app.asks.get(test, account="ada")).status) == (409, "pending")
        await app.inbox.approve(row, by="ben")
        await app.asks.wait(test, 20, account="ada")
        assert "Approved by" in (await ada.see(where)).text
        assert (await sent(ada, "/connect/test", do="claim", test=test)).status_code == 303
        state = await app.asks.get(test, account="ada")
        assert (state.status, state.claimed_by, state.decided_by) == ("succeeded", "ada connect", "ben")
        assert "reported as succeeded" in (await ada.see(where)).text
        assert "Test request" in (await ada.see("/connect?test=another")).text


async def test_a_test_request_that_no_worker_takes_up_is_shown_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waited(*_: Any) -> None:
        raise TimeoutError

    app = App([ExternalAgent()], MemoryJournal())
    app.embedded = False
    async with app:
        ada = Visiting(app, (await peopled(app))["ada"])
        monkeypatch.setattr(App, "wait", waited)
        answer = await sent(ada, "/connect/test", do="send")
        assert answer.status_code == 303
        assert "No worker has taken the request up yet" in (await ada.see(answer.headers["location"])).text
