"""`keyturn audit`: every subcommand with its exit codes, in words and as JSON, and what it says of mistakes."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from keyturn.cli.main import main
from keyturn.journal.sqlite import SQLiteJournal
from tests.audit.records import a_call, paid


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


class Here:
    """A journal in a folder, and the command in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/runs.db"
        self._capsys = capsys

    def pay(self, *numbers: int, **words: Any) -> None:
        async def filled() -> None:
            store = SQLiteJournal(self.folder / "runs.db")
            for number in numbers:
                await paid(store, a_call(number, token="hush-hush"), **words)
            await store.close()

        asyncio.run(filled())

    def audit(self, *arguments: object) -> Said:
        code = main(["audit", *map(str, arguments)])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def file(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture
def here(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Here:
    made = Here(tmp_path, capsys)
    made.pay(1, 2)
    return made


def test_an_auditors_whole_day(here: Here) -> None:
    """Checkpoint, export, verify with the file and public keys alone, and find what somebody altered."""
    made = here.audit("checkpoint", here.url, "--out", here.file("monday"))
    assert (made.code, made.err) == (0, "")
    assert here.audit("keys", "--out", here.file("public")).code == 0
    assert here.audit("verify", here.url).code == 3  # nothing kept elsewhere vouches for it
    assert here.audit("verify", here.url, "--heads", here.file("monday")).code == 0
    here.pay(3)
    later = here.audit("verify", here.url, "--head", here.file("monday"))
    assert later.code == 3
    assert "unproven" in later.out
    exported = here.audit("export", here.url, "--out", here.file("export"), "--heads", here.file("monday"))
    assert exported.code == 0
    assert "withheld" in exported.out
    offline = ("--public", here.file("public"), "--heads", here.file("monday"))
    assert here.audit("verify", here.file("export"), *offline).code == 0
    rows = here.file("export").read_bytes().split(b"\n")
    here.file("export").write_bytes(b"\n".join([*rows[:4], *rows[5:]]))
    found = here.audit("verify", here.file("export"), *offline)
    run = json.loads(rows[4])["run"]
    assert found.code == 1
    assert found.out.startswith(f"missing  {run}  line 3  (row 5)")
    assert "ALTERED" in found.out


def test_keys_rotate_and_old_public_keys_go_on_verifying(here: Here) -> None:
    here.audit("keys", "--out", here.file("old"))
    before = json.loads(here.audit("keys", "--json").out)
    after = json.loads(here.audit("keys", "rotate", "--json").out)
    assert [key["signs"] for key in before] == [True]
    assert [key["signs"] for key in after] == [False, True]
    here.audit("checkpoint", here.url, "--out", here.file("checkpoint"))
    assert here.audit("verify", here.file("checkpoint"), "--public", here.file("old")).code == 0


def test_search_prints_and_pages(here: Here) -> None:
    found = here.audit("search", here.url, "--person", "ada", "--json")
    told = [json.loads(row) for row in found.out.splitlines()]
    assert [entry["verdict"] for entry in told] == ["approve", "approve"]
    assert "hush" not in found.out
    first = here.audit("search", here.url, "--person", "ada", "--limit", "1")
    assert 'approved by "ada" of tool "pay"' in first.out
    key = first.out.splitlines()[-1].removeprefix("more: --after ")
    second = here.audit("search", here.url, "--person", "ada", "--limit", "1", "--after", key, "--json")
    assert json.loads(second.out)["key"] == told[1]["key"]
    assert here.audit("search", here.url, "--until", "2001-01-01").out == "no decisions\n"
    run = json.loads(found.out.splitlines()[0])["run"]
    named = here.audit("search", here.url, "--run", run[:8], "--since", "7d", "--decisions", "--json")
    assert {json.loads(line)["run"] for line in named.out.splitlines()} == {run}
    assert {json.loads(line)["what"] for line in named.out.splitlines()} <= {"decision", "verdict"}
    assert here.audit("search", here.url, "--run", run[:8], "--until", "7d").out == "no decisions\n"
    assert here.audit("search", here.url, "--run", "zzzzzz").code == 2
    assert here.audit("export", here.url, "--out", here.file("one.csv"), "--format", "csv", "--run", run[:8]).code == 0


def test_other_formats_and_standard_input(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here.audit("export", here.url, "--out", here.file("t.csv"), "--format", "csv").code == 0
    assert here.file("t.csv").read_text().startswith("run,line,at")
    assert here.audit("export", here.url, "--out", here.file("traces"), "--format", "agentack").code == 0
    assert len(list(here.file("traces").glob("*.jsonl"))) == 2
    told = json.loads(here.audit("export", here.url, "--out", here.file("e"), "--secrets", "--json").out)
    assert (told["ok"], told["runs"], told["withheld"]) == (True, 3, 0), "two runs, and who read them"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(here.file("e").read_bytes())))
    assert json.loads(here.audit("verify", "-", "--json").out)["complete"] is True


def test_what_cannot_be_done_is_exit_code_2_and_leaves_nothing(here: Here) -> None:
    nowhere = here.file("nowhere") / "x"
    cases = [
        ("verify", "sqlite:////nonexistent/runs.db"),
        ("verify", nowhere),
        ("verify", here.url, "--heads", nowhere),
        ("verify", here.file("runs.db"), "--public", nowhere),
        ("checkpoint", here.url, "--out", nowhere),
        ("export", here.url, "--out", here.file("x"), "--person", "ada"),
        ("search", here.url, "--verdict", "yes"),
        ("search", here.url, "--since", "yesterday"),
        ("search", here.url, "--after", "x"),
        ("search", here.url, "--limit", "0"),
        ("verify", here.file("runs.db")),  # no key was made here, and none is named
    ]
    for arguments in cases:
        said = here.audit(*arguments)
        assert said.code == 2, (arguments, said)
        assert said.err.startswith("keyturn audit"), arguments
    assert not here.file("x").exists()
    assert not here.file("nowhere").exists()


def test_a_journal_that_is_damaged_is_exit_code_1(here: Here) -> None:
    here.audit("checkpoint", here.url, "--out", here.file("before"))
    with sqlite3.connect(here.file("runs.db")) as db:
        db.execute("PRAGMA recursive_triggers = OFF")
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE events SET line = CAST(replace(line, 'approve', 'rejects') AS BLOB) WHERE seq = 2")
    db.close()
    assert here.audit("verify", here.url).code == 1
    made = here.audit("checkpoint", here.url, "--out", here.file("after"))
    assert made.code == 1
    assert "line 2" in made.err
    refused = here.audit("checkpoint", here.url, "--out", here.file("next"), "--heads", here.file("before"))
    assert refused.code == 1
    assert not here.file("next").exists()
    assert here.audit("search", here.url).code == 1
