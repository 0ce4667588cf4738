"""Each command that takes `--server` prints the same at a journal and at the server of that journal."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from typing import Any, NamedTuple

import pytest

from keyturn import Agent, function_tool
from keyturn.cli.main import main
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.policies.grants import Grant
from tests.effort import part
from tests.server.programs import Port
from tests.table import each

PROGRAM = """from keyturn import App
from tests.server.programs import agents
app = App(agents(), {!r})
"""
SECRET = "KEYTURN_SECRET"
KEY = "a-secret-of-these-tests-of-two-seats"
NEW = [
    *((r"kt_[0-9a-f]{12}_[0-9a-f]{48}", "TOKEN"), (r"\b[0-9a-f]{8,}\b", "ID"), (r"\d\d:\d\d:\d\d", "TIME")),
    *((r"\d+ s ago", "AGO"), (r"SHA256:\S{43}", "KEY"), (r"zed\d", "zed"), (r'"place": \d+', '"place": N')),
    *(
        (r"keyturn worker or keyturn serve \w+:app|the server", "MOVER"),
        (r"link\w* \S{20,}", "LINK"),
        (r"expires_at\S+ \d+", "END"),
    ),
    *((r"\d{4}-\d\d-\d\dT?Z?", "DAY"), (r"\d\d:\d\dZ", "TIME"), (", broken", "")),
]


@function_tool(failure_error_function=None)
def breaks(account: str) -> str:
    """Break."""
    raise ValueError(f"no account {account}\x1b[2K\nrun forged")


class Desk(NamedTuple):
    """A server on a journal, what is in it, and the command line at both."""

    port: Port
    url: str
    names: dict[str, str]
    capsys: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def said(self, words: list[str], place: str, number: int = 0) -> tuple[int, str, str]:
        """What a command comes to at the journal, or at the server."""
        names = {name: value for name, value in self.names.items() if not name.endswith(("0", "1"))}
        names |= {name[:-1]: value for name, value in self.names.items() if name.endswith(str(number))}
        at = ["--server", self.port.url] if place == "server" else ["--journal", self.url]
        app = ["--app", "program:app"] if words[0] == "fork" and place == "journal" else []
        if words[0] in ("run", "fork"):
            at = at if place == "server" else app
        given = [word.format(**names, n=number) for word in words]
        if words[0] == "run" and place == "journal":
            given.insert(1, "program:app")
        kind = "runs" if words[0] in ("run", "send", "fork") else "rest"
        self.patch.setenv("KEYTURN_TOKEN", self.port.tokens[kind])
        sys.modules.pop("program", None)  # the command before closed its journal
        self.capsys.readouterr()
        code = main([*given, *at])
        told = self.capsys.readouterr()
        return code, told.out, told.err


def plain(text: str) -> str:
    """The text without what is another one each time."""
    for pattern, word in NEW:
        text = re.sub(pattern, word, text)
    return text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Port, str, dict[str, str]]]:
    """A server with runs of every kind, grants, people, and a record of reads."""
    folder = tmp_path_factory.mktemp("seats")
    patch = pytest.MonkeyPatch()
    patch.setenv(SECRET, KEY)
    url = f"sqlite:///{folder}/keyturn.db"
    broken: Agent[Any] = Agent(
        "broken", model=ScriptedModel([function_call("breaks", {"account": "A"})]), tools=[breaks]
    )
    (folder / "program.py").write_text(PROGRAM.format(url))
    (folder / "rules.toml").write_text('[[rules]]\naction = "deny"\ntool = "pay"\n')
    for key in ("key0", "key1"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "z", "-f", str(folder / key)], check=True)
    with Port(SQLiteJournal(folder / "keyturn.db"), more=[broken]) as port:
        names = {"folder": str(folder)}
        for agent, times in (("desk", 6), ("broken", 1), ("bank", 1)):
            for number in range(times):
                run = port.does(port.app.start(agent, "Pay \x1b[2J.", requester="ada")).id
                port.does(port.app.wait(run, 30))
                names[f"{agent}_{'abcdef'[number]}"] = run
        [first, *_] = asked = [each for each in port.does(port.app.inbox.list()) if each.agent == "desk"]
        port.does(port.app.inbox.approve(first, by="ben", grant=Grant(uses=30, expires="2h", scope="agent")))
        port.does(port.app.wait(first.run, 30))
        second = port.does(
            port.app.inbox.approve(asked[1], by="ben", grant=Grant({"amount": {"le": 5}}, scope="agent"))
        )
        port.does(port.app.wait(second.run, 30))
        names |= {"done": first.run, "request": asked[2].id}
        for number in (0, 1):
            names |= {f"sent{number}": asked[2 + number].run, f"ended{number}": asked[4 + number].run}
            names |= {f"key{number}": str(folder / f"key{number}")}
        [one, two] = port.does(port.app.inbox.grants())
        names |= {"grant0": one.id, "grant1": two.id}
        port.does(port.app.people.set("record_reads", True, by="ada"))
        port.does(port.app.people.set("theme", "dark\x1b[2J", person="ada", by="ada"))
        port.does(port.app.people.delegate("ben", "dan", lasts="2h", by="ada"))
        for kind, scopes in {"runs": ["run", "read"], "rest": ["decide", "read", "people"]}.items():
            port.tokens[kind] = port.does(port.app.people.issue_token("ada", scopes, by="ada"))
        yield port, url, names
    patch.undo()


@pytest.fixture
def desk(
    place: tuple[Port, str, dict[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Desk:
    port, url, names = place
    for variable in ("KEYTURN_JOURNAL", "KEYTURN_SERVER", "KEYTURN_AS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(SECRET, KEY)
    monkeypatch.chdir(names["folder"])
    return Desk(port, url, names, capsys, monkeypatch)


READS = [
    ["runs"], ["runs", "--json"], ["runs", "--status", "waiting"], ["runs", "--agent", "bank"],
    ["runs", "--limit", "2"], ["runs", "{desk_a}"], ["runs", "{broken_a}"], ["runs", "{broken_a}", "--json"],
    ["runs", "000000"],
    ["grants"], ["grants", "--all", "--json"], ["grants", "--run", "{done}"], ["grants", "--limit", "1"],
    ["insights"], ["insights", "--json"], ["insights", "--suggest"], ["insights", "--tool", "pay"],
    ["users", "list"], ["users", "list", "--json"], ["users", "show", "ada"], ["users", "show", "ben", "--json"],
    ["users", "show", "nobody"], ["users", "log"], ["users", "log", "--json"], ["users", "keys"],
    ["users", "settings"], ["users", "settings", "ada"], ["users", "settings", "--json"],
    ["requests"], ["requests", "--all", "--json"], ["requests", "--run", "{desk_f}"], ["show", "{request}"],
    ["tail", "{desk_f}"], ["tail", "{done}", "--follow"], ["tail", "{broken_a}", "--follow", "--json"],
    ["audit", "search"], ["audit", "search", "--json", "--person", "ben"], ["audit", "reads"],
    ["audit", "reads", "--json", "--person", "ada"], ["policy", "test", "{folder}/rules.toml"],
    ["policy", "test", "{folder}/rules.toml", "--json", "--examples", "1"], ["policy", "shadow"],
]  # fmt: skip
CHANGES = [
    ["send", "{sent}", "Hurry."], ["cancel", "{ended}", "--why", "enough"], ["cancel", "{ended}"],
    ["fork", "{done}", "--json"], ["fork", "{done}", "--at", "1"], ["run", "desk", "Pay."],
    ["run", "desk", "Pay.", "--wait", "--requester", "ada", "--json"], ["run", "nobody", "Pay."],
    ["run", "desk", "Pay.", "--wait", "--timeout", "0s"],
    ["revoke", "{grant}"],
    ["users", "add", "zed{n}", "--role", "ops", "--name", "Z"], ["users", "add", "zed{n}"],
    ["users", "give", "release", "zed{n}"], ["users", "give", "release", "--group", "g{n}"],
    ["users", "take", "ops", "zed{n}"], ["users", "give", "release"], ["users", "join", "oncall", "zed{n}"],
    ["users", "leave", "oncall", "zed{n}"], ["users", "address", "zed{n}", "mail", "z{n}@example.org"],
    ["users", "confirm-address", "zed{n}", "mail"],
    ["users", "mute", "zed{n}", "2h", "--json"], ["users", "mute", "zed{n}"],
    ["users", "set", "mood", '"good"', "--person", "zed{n}"], ["users", "set", "zed{n}", "5", "--json"],
    ["users", "delegate", "zed{n}", "ben", "--lasts", "2h"], ["users", "end-delegation", "none"],
    ["users", "token", "zed{n}"],
    ["users", "revoke-token", "none"], ["users", "link", "zed{n}", "--url", "http://localhost"],
    ["users", "forget-subject", "zed{n}"],
    ["users", "forget-subject", "nobody"], ["users", "remove", "zed{n}"],
    ["users", "enrol-key", "{key}.pub"], ["users", "keys", "ada"], ["users", "revoke-key", "none"],
]  # fmt: skip


@pytest.mark.trial
@each("words", READS, ids=" ".join)
def test_what_is_read_is_the_same_at_a_journal_and_at_its_server(words: list[str], desk: Desk) -> None:
    at_journal, at_server = desk.said(words, "journal"), desk.said(words, "server")
    assert _told(at_server) == _told(at_journal)
    assert at_journal[1] or at_journal[2]
    assert "\x1b" not in at_server[1] + at_server[2]


def _told(said: tuple[int, str, str]) -> tuple[int, str, str]:
    code, out, err = said
    return code, re.sub(r"\d+ s ago", "AGO", out), err


def test_what_is_changed_is_told_the_same_at_a_journal_and_at_its_server(desk: Desk) -> None:
    for words in part(CHANGES, 2):
        at_journal, at_server = desk.said(words, "journal", 0), desk.said(words, "server", 1)
        assert list(map(plain, map(str, at_server))) == list(map(plain, map(str, at_journal))), words
        assert at_journal[1] or at_journal[2], words
