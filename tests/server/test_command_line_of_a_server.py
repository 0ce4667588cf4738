"""The commands that list, show and decide, against a server in place of a journal."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from keyturn.cli.finding import find_grant
from keyturn.cli.main import main
from keyturn.cli.remote import RemoteInbox
from keyturn.wire.seen import GrantSeen
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
        assert "leave out one" in capsys.readouterr().err
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

    class Inbox:
        async def grants(self, *, run: str | None, limit: int, after: str | None) -> list[GrantSeen]:
            asked.append(after)
            made = range(500) if after is None else range(500, 501)
            return [GrantSeen(f"{n:032x}", "r", "pay", "desk", 0, False, False, {}, False) for n in made]

    inbox: Any = RemoteInbox(SimpleNamespace(inbox=Inbox(), people=None, url=""))
    assert asyncio.run(find_grant(inbox, f"{500:032x}")).id == f"{500:032x}"
    assert asked == [None, f"0.r/{499:032x}"]
