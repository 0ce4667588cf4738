"""The command line at a server: tokens that may not, servers that lie, hang or are none, and places named twice."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from keyturn.cli.main import main
from keyturn.client import sending
from keyturn.journal.rows import Query
from tests.server.programs import Port
from tests.table import each

Capsys = pytest.CaptureFixture[str]
BAD = "x\x1b[2J\u202e\nrun forged is finished"
AT = "2026-11-02T00:00:00Z"
RUN: dict[str, Any] = {
    "run": "5e1f5e1f5e1f",
    "agent": BAD,
    "status": "failed",
    "started_at": AT,
    "updated_at": AT,
    "waiting": 0,
    "turns": 1,
    "workflow": BAD,
    "error": BAD,
}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("KEYTURN_JOURNAL", "KEYTURN_SERVER", "KEYTURN_AS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KEYTURN_TOKEN", "kt_1_2")
    monkeypatch.setattr(sending, "_PAUSE", 0.0)


def test_a_token_that_may_not_do_it_does_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    with Port() as port:
        run = port.does(port.app.start("desk", "Pay.", requester="cyd")).id
        port.does(port.app.wait(run, 30))
        runner = port.does(port.app.people.issue_token("ada", ["run", "read"], by="ada"))
        before = len(port.does(port.app.people.entries()))
        cases = [
            (["cancel", run], "only read", "'run' or 'decide'"),
            (["send", run, "pay mallory"], "only read", "'run'"),
            (["send", run, "pay mallory"], runner, "acts for 'cyd'"),
            (["fork", run], runner, "acts for 'cyd'"),
            (["run", "desk", "Pay.", "--requester", "cyd"], runner, "for themselves"),
            (["run", "desk", "Pay."], "only decide", "'run'"),
            (["users", "add", "eve"], "only read", "'people'"),
            (["users", "add", "eve"], "ben", ""),
            (["users", "log"], "ben", "administrators"),
            (["users", "settings"], "ben", "administrators"),
            (["users", "settings", "ada"], "ben", "administrators"),
            (["users", "mute", "ada", "2h"], "ben", ""),
            (["grants"], "only decide", "'read'"),
            (["insights"], "only people", "'read'"),
            (["runs"], "only people", "'read'"),
            (["runs", run], "only run", ""),
            (["tail", run], "only run", "has no run"),
            (["cancel", run, "--as", "cyd"], "ada", "omit one"),
            (["users", "add", "eve", "--as", "ada"], "ben", "omit one"),
        ]
        for words, who, why in cases:
            monkeypatch.setenv("KEYTURN_TOKEN", port.tokens.get(who, who))
            capsys.readouterr()
            assert main([*words, "--server", port.url]) == 1, words
            told = capsys.readouterr()
            assert (told.out, why in told.err) == ("", True), (words, told.err)
        port.does(port.app.people.set("visible", "own", by="ada"))
        bank = port.does(port.app.start("bank", "Pay.", requester="cyd")).id
        port.does(port.app.wait(bank, 30))
        hidden = [["runs", bank], ["tail", bank], ["cancel", bank], ["insights"], ["audit", "search"]]
        for words in [*hidden, ["audit", "reads"]]:
            monkeypatch.setenv("KEYTURN_TOKEN", port.tokens["dan"])
            assert main([*words, "--server", port.url]) != 0, words
        assert len(port.does(port.app.people.entries())) == before + 1
        rows = port.does(port.app.journal.runs(Query()))
        assert [row.status for row in rows] == ["waiting", "waiting"]


@contextmanager
def answering(told: Callable[[str], tuple[str, bytes]]) -> Generator[str]:
    """A server that answers everything with whatever it likes."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = told(self.path)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 # the name is of the library

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


COMMANDS = [
    ["runs"], ["runs", "5e1f5e1f5e1f"], ["grants"], ["insights"], ["insights", "--suggest"], ["users", "list"],
    ["users", "log"], ["users", "show", "ada"], ["users", "add", "eve"], ["users", "token", "ada"],
    ["cancel", "5e1f5e"], ["send", "5e1f5e", "hi"], ["fork", "5e1f5e"], ["run", "desk", "hi"],
    ["run", "desk", "hi", "--wait"], ["tail", "5e1f5e"], ["audit", "search"], ["audit", "reads"], ["policy", "shadow"],
    ["requests"], ["users", "confirm-key", "SHA256:x"],
]  # fmt: skip


@each("words", COMMANDS, ids=" ".join)
def test_a_page_of_html_is_an_error_in_one_line(words: list[str], capsys: Capsys) -> None:
    with answering(lambda _path: ("text/html", b"<html>\x1b[2J Welcome to nginx!")) as url:
        assert main([*words, "--server", url]) in (1, 2)
        told = capsys.readouterr()
        assert (told.out, len(told.err.splitlines())) == ("", 1), told
        assert "\x1b" not in told.err


def _lies(path: str) -> tuple[str, bytes]:
    person = {"id": BAD, "name": BAD, "kind": "person", "here": True, "roles": [BAD], "groups": [BAD]}
    person |= {"addresses": {BAD: BAD}, "settings": {BAD: BAD}}
    grant = {"id": BAD, "run": BAD, "tool": BAD, "agent": BAD, "uses": 0, "revoked": False, "damaged": False}
    grant |= {
        "terms": {"id": BAD, "agent": BAD, "tool": BAD, "verdict": "approve"},
        "reaches_other_runs": True,
        "scope": BAD,
    }
    line = {"line": 0, "at": AT, "events": [{"event": BAD, "words": [BAD, 5]}]}
    key = {"id": "SHA256:x", "person": BAD, "scheme": "ssh", "public": BAD, "label": BAD, "counts": True}
    read = {"at": 5, "by": {"id": BAD}, "how": "list", "requests": [BAD], "what": BAD}
    told: dict[str, Any] = {
        "/v1/runs?": {"runs": [RUN | {"run": "5e1f5e1f5e1f"}, RUN | {"run": BAD}], "next": None},
        "/v1/runs/5e1f5e1f5e1f/story": {"run": RUN, "traceback": BAD}, "/v1/runs/5e1f5e1f5e1f": RUN,
        "/v1/people/log": {"entries": [{"at": 5, "by": {"id": BAD}, "events": [{"e": BAD, BAD: BAD}]}], "next": None},
        "/v1/people/issue_token": {"secret": BAD},
        "/v1/people?": {"people": [person, person | {"id": "ada"}], "groups": {BAD: [BAD]}},
        "/v1/keys": {"keys": [key]}, "/v1/tokens": {"tokens": []}, "/v1/delegations": {"delegations": []},
        "/v1/grants": {"grants": [grant], "next": None}, "/v1/audit/reads": {"reads": [read], "next": None},
        "/v1/me": {"person": person, "scopes": [BAD], "tenant": BAD, "sees_all": True},
    }  # fmt: skip
    if "/events" in path:
        return "text/event-stream", f"id: 0\ndata: {json.dumps(line)}\n\n".encode()
    whole = path if "?" in path else f"{path}?"
    found = next((body for name, body in told.items() if whole.startswith(name)), {"run": BAD, "done": True})
    return "application/json", json.dumps(found).encode()


@each("words", COMMANDS, ids=" ".join)
def test_nothing_that_a_server_says_acts_on_the_terminal_or_begins_a_line(words: list[str], capsys: Capsys) -> None:
    with answering(_lies) as url:
        main([*words, "--server", url])
        told = capsys.readouterr()
        assert not {"\x1b", "\u202e"} & set(told.out + told.err), told
        assert not [line for line in (told.out + told.err).splitlines() if line.startswith("run forged")], told


def test_a_lying_server_gets_no_signature_on_a_key(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[bytes] = []

    def signs(said: bytes, key_path: object) -> None:
        signed.append(said)

    monkeypatch.setattr("keyturn.cli.users_keys.sign_with_ssh", signs)
    with answering(_lies) as url:
        assert main(["users", "confirm-key", "SHA256:x", "--sign-with", "k", "--server", url]) == 1
    assert "nothing was signed" in capsys.readouterr().err
    assert not signed


def test_another_run_than_the_one_that_was_asked_for_is_refused(capsys: Capsys) -> None:
    other = json.dumps(RUN | {"run": "f" * 32}).encode()
    with answering(lambda _path: ("application/json", other)) as url:
        assert main(["runs", "e" * 32, "--server", url]) == 1
    assert "another run" in capsys.readouterr().err


def test_a_server_that_hangs_is_left(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sending.Sender.__init__

    def hurried(self: sending.Sender, url: str, token: str, **_more: object) -> None:
        made(self, url, token, timeout=0.2)

    monkeypatch.setattr(sending.Sender, "__init__", hurried)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert main(["runs", "--server", f"http://127.0.0.1:{silent.getsockname()[1]}"]) == 1
    assert "does not answer: ReadTimeout" in capsys.readouterr().err


@each(
    "url",
    ["ftp://x", "localhost:8177", "http://[", "http://", "http://127.0.0.1:1", "http://a b/", " ", "http://x:99999"],
)
def test_a_wrong_url_is_an_error_in_one_line(url: str, capsys: Capsys) -> None:
    assert main(["grants", "--server", url]) == 1
    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1), told


def test_places_that_are_named_twice_are_refused(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    here = ["--server", "http://127.0.0.1:1"]
    for words, why in (
        (["grants", "--journal", "memory://", *here], "omit one"),
        (["runs", "sqlite:///x.db", *here], "omit one"),
        (["audit", "search", "sqlite:///x.db", *here], "omit one"),
        (["fork", "5e1f5e", "--app", "x:app", *here], "omit one"),
        (["run", "x:app", "desk", "hi", *here], "omit one"),
        (["grants", "--tenant", "acme", *here], "omit --tenant"),
        (["grants", "--journal", "sqlite:///x.db", "--token-file", "t"], "--token-file requires a server"),
        (["run", "desk", "hi"], "no app was named"),
        (["fork", "5e1f5e"], "no app was named"),
    ):
        assert main(words) in (1, 2), words
        told = capsys.readouterr()
        assert (told.out, why in told.err) == ("", True), (words, told)
    assert main(["run", "hi"]) == 2
    monkeypatch.delenv("KEYTURN_TOKEN")
    assert main(["runs", *here]) == 1
    assert "KEYTURN_TOKEN" in capsys.readouterr().err
