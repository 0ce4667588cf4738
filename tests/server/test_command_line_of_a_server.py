"""The commands that list, show and decide, against a server in place of a journal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from keyturn import App, Conflict, UserError
from keyturn.cli.finding import find_grant
from keyturn.cli.main import main
from keyturn.client import AsyncClient, Client, ServerError
from keyturn.client.inbox import AsyncInbox
from keyturn.journal.rows import Query
from keyturn.wire.responses import GrantSeen
from tests.server.office import Served, office, opened, peopled
from tests.server.programs import Port


def test_requests_are_listed_shown_and_decided_at_a_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Port() as port:
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        monkeypatch.setenv("KEYTURN_SERVER", port.url)
        monkeypatch.delenv("KEYTURN_TOKEN", raising=False)
        assert main(["requests"]) == 1
        assert "KEYTURN_TOKEN" in capsys.readouterr().err
        monkeypatch.setenv("KEYTURN_TOKEN", "kt_1_2")
        assert main(["requests"]) == 1
        refused = capsys.readouterr().err
        assert "unknown, expired or revoked: set KEYTURN_TOKEN, or pass --token-file FILE" in refused.replace("\n", " ")
        monkeypatch.setenv("KEYTURN_TOKEN", port.tokens["ben"])
        assert main(["requests", "--json"]) == 0
        [asked] = json.loads(capsys.readouterr().out)
        assert asked["params"]["card"] == "[redacted]"
        assert main(["show", asked["id"][:8]]) == 0
        assert asked["digest"] in capsys.readouterr().out.replace("\n", "").replace(" ", "")
        code = main(["approve", asked["id"][:8], "--digest", asked["digest"][:16], "--note", "fine", "--json"])
        told = json.loads(capsys.readouterr().out)
        assert (code, told["state"], told["by"]) == (0, "approve", "ben")
        assert main(["reject", asked["id"], "--digest", asked["digest"]]) == 1
        assert "ben" in capsys.readouterr().err
        assert main(["approve", asked["id"], "--digest", asked["digest"], "--as", "ada"]) == 1
        assert "omit one" in capsys.readouterr().err
        monkeypatch.setenv("KEYTURN_TOKEN", port.tokens["only read"])
        assert main(["approve", asked["id"], "--digest", asked["digest"]]) == 1


def test_a_grant_is_given_and_revoked_at_a_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Port() as port:
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        [asked] = port.does(port.app.inbox.list())
        monkeypatch.setenv("KEYTURN_SERVER", port.url)
        monkeypatch.setenv("KEYTURN_TOKEN", port.tokens["ben"])
        assert main(["grant", asked.id, "--digest", asked.digest, "--uses", "2", "--json"]) == 0
        [grant] = json.loads(capsys.readouterr().out)["grants"]
        monkeypatch.setenv("KEYTURN_TOKEN", port.tokens["only read"])
        assert main(["revoke", grant[:8]]) == 1
        capsys.readouterr()
        monkeypatch.setenv("KEYTURN_TOKEN", port.tokens["ben"])
        assert main(["revoke", grant[:8]]) == 0
        assert f"revoked: grant {grant}" in capsys.readouterr().out
        [row] = port.does(port.app.inbox.grants())
        assert row.revoked


def test_the_grants_of_a_server_are_looked_through_page_by_page() -> None:
    asked: list[str | None] = []

    class PagedInbox(AsyncInbox):
        async def grants(
            self, *, run: str | None = None, state: str | None = None, limit: int = 100, after: str | None = None
        ) -> list[GrantSeen]:
            asked.append(after)
            made = range(500) if after is None else range(500, 501)
            return [GrantSeen(f"{n:032x}", "r", "pay", "desk", 0, False, False, {}, False) for n in made]

    nowhere: Any = None
    assert asyncio.run(find_grant(PagedInbox(nowhere), f"{500:032x}")).id == f"{500:032x}"
    assert asked == [None, f"0.r/{499:032x}"]


def test_an_edit_is_tried_and_approved_at_a_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Port() as port, Client(port.url, port.tokens["ben"]) as ben:
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        [asked] = ben.inbox.list()
        made = ben.inbox.preview_edit(asked, {"to": "bob", "amount": 7, "card": "[redacted]"})
        assert made.arguments == {"to": "bob", "amount": 7, "card": "[redacted]"}
        assert (made.request, made.digest, len(made.runs)) == (asked.id, asked.digest, 64)
        assert "SECRET" not in str(made)
        for bad in ({"to": "bob"}, {"to": "[redacted]", "amount": 7, "card": "[redacted]"}):
            with pytest.raises(UserError, match="do not fit"):
                ben.inbox.preview_edit(asked, bad)
        with pytest.raises(Conflict, match="no longer"):
            ben.inbox.preview_edit(asked.id, made.arguments, digest="f" * 64)
        assert ben.inbox.get(asked.id) == asked
        monkeypatch.setenv("KEYTURN_SERVER", port.url)
        monkeypatch.setenv("KEYTURN_TOKEN", port.tokens["ben"])
        words = ["edit", asked.id, "--digest", asked.digest, "--yes"]
        assert main([*words, "--set", "amount=many"]) == 1
        assert "do not fit" in capsys.readouterr().err
        assert main([*words, "--set", "amount=9"]) == 0
        assert "9" in capsys.readouterr().out
        port.does(port.app.wait(run, 30))
        [ran] = port.does(port.app.inbox.list(Query(state="edit")))
        assert (ran.id, ran.by) == (asked.id, "ben")


def test_the_clock_that_is_shown_is_the_servers() -> None:
    def told(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(404, headers={"date": "Wed, 01 Jan 2031 00:00:00 GMT"})

    async def now() -> int:
        async with AsyncClient("http://localhost", "kt_1_2", transport=httpx2.MockTransport(told)) as client:
            with pytest.raises(ServerError):
                await client.inbox.get("5e1f")
            return await client.inbox.now()

    assert abs(asyncio.run(now()) - 1_924_992_000_000) < 60_000


def test_an_event_that_is_garbled_is_an_error_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_seconds: float) -> None:
        return None

    async def looked() -> None:
        garbled = httpx2.MockTransport(lambda _request: httpx2.Response(200, content=b"id: x\ndata: nonsense\n\n"))
        async with AsyncClient("http://localhost", "kt_1_2", transport=garbled) as client:
            with pytest.raises(ServerError):
                await anext(client.inbox.pages())
            with pytest.raises(ServerError):
                await anext(client.events("run"))

    monkeypatch.setattr(asyncio, "sleep", at_once)
    asyncio.run(looked())


def test_how_the_models_words_press_is_pointed_out_at_a_server_as_at_a_journal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Served(App(office(), "memory://")) as served:
        served.does(peopled(served.app))
        request = served.does(opened(served.app, "ops"))["ops"]
        for scopes, marked in ((["read", "decide"], True), (["decide"], False)):
            monkeypatch.setenv("KEYTURN_TOKEN", served.does(served.app.people.issue_token("ada", scopes, by="ada")))
            assert main(["show", request, "--server", served.url]) == 0
            told = capsys.readouterr()
            assert ("no need to check" in told.out) is marked
            assert ("not shown" in told.err) is not marked


def test_several_are_decided_once_under_one_name() -> None:
    with Port() as port, Client(port.url, port.tokens["ben"]) as ben:
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        rows = ben.inbox.list()
        first = ben.inbox.approve_all(rows, note="fine", once="a-name")
        assert ben.inbox.approve_all(rows, note="fine", once="a-name") == first
        with pytest.raises(UserError, match="another request"):
            ben.inbox.reject_all(rows, once="a-name")


def test_the_clients_new_words_say_what_the_server_does() -> None:
    with Port() as port, Client(port.url, port.tokens["ada"]) as ada:
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        ada.people.mute("ada", "2h")
        assert "muted_until" in (ada.people.directory(person="ada").people[0].settings or {})
        ada.people.set("record_reads", True)
        assert ada.people.settings() == {"record_reads": True}
        assert ada.people.log()[-1]["events"][0]["name"] == "record_reads"
        ada.inbox.list()
        assert [read.by.id for read in ada.audit.reads(person="ada") if read.by] == ["ada"]
        assert (ada.story(run).run.status, ada.story(run).traceback) == ("waiting", "")
        lines = list(ada.events(run, words=True, follow=False))
        assert any("requires approval" in words for line in lines for event in line.events for words in event["words"])
        assert "SECRET" not in str(lines)
        assert ada.policies.get().rules == 0
        assert ada.policies.replay('default = "allow"', examples=0).counts[0].examples == []
        assert ada.policies.shadow().calls == 0
        with pytest.raises(UserError, match="key"):
            ada.people.revoke_key("none")
