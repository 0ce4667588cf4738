"""The commands that list, show and decide, against a server in place of a journal."""

from __future__ import annotations

import json

import pytest

from keyturn.cli.main import main
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
