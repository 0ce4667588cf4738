"""`keyturn doctor` finds what is wrong, says the remedy, and is not alarmed where nothing is."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, Approval, function_tool
from keyturn.cli.doctor_checks import check_store
from keyturn.cli.main import main
from keyturn.journal.memory import MemoryJournal
from keyturn.journal.rows import Changes, RunRow
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, function_call

Said = pytest.CaptureFixture[str]


@function_tool(approval=Approval(role="finance", quorum=2))
def wire(to: str) -> str:
    """Wire money."""
    return to


@pytest.fixture
def place(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("KEYTURN_JOURNAL", "KEYTURN_TOKEN", "KEYTURN_SECRET"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KEYTURN_AS", "ada")
    assert main(["init", "ada"]) == 0
    return tmp_path / "keyturn.db"


def looked(capsys: Said, *words: str) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    code = main(["doctor", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def bad(found: list[dict[str, Any]]) -> list[str]:
    return [finding["what"] for finding in found if finding["level"] == "bad"]


def waiting(path: Path) -> None:
    async def filled() -> None:
        store = SQLiteJournal(path)
        model = ScriptedModel([function_call("wire", {"to": "ann"})])
        async with App([Agent("desk\x1b[2J", model=model, tools=[wire])], store) as app:
            await (await app.start("desk\x1b[2J", "go")).wait(20)
        await store.close()

    asyncio.run(filled())


def test_a_sound_journal_has_nothing_bad(place: Path, capsys: Said) -> None:
    code, found = looked(capsys)
    assert (code, bad(found)) == (0, [])
    assert {"machine", "keys", "journal", "permissions", "clock", "rows", "people"} <= {each["what"] for each in found}
    assert main(["doctor"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert all(row.split()[0] in ("ok", "warn") for row in rows)


def test_a_request_that_nobody_here_can_decide_is_found(place: Path, capsys: Said) -> None:
    waiting(place)
    code, found = looked(capsys)
    assert (code, bad(found)) == (1, ["requests"])
    for person in ("bob", "cyd"):
        assert main(["users", "add", person, "--role", "finance"]) == 0
    assert looked(capsys)[0] == 0


def test_an_altered_row_is_found(place: Path, capsys: Said) -> None:
    waiting(place)
    with sqlite3.connect(place) as db:
        db.execute("UPDATE runs SET agent = 'another'")
    code, found = looked(capsys)
    assert code == 1
    assert "rows" in bad(found)


def test_an_altered_directory_is_found(place: Path, capsys: Said) -> None:
    with sqlite3.connect(place) as db:
        db.execute("UPDATE events SET line = replace(CAST(line AS TEXT), 'ada', 'eve')")
    code, found = looked(capsys)
    assert (code, bad(found)) == (1, ["people"])


def test_files_that_others_can_read_are_told_of(
    place: Path, capsys: Said, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyturn.support.keys._BELIEVED", 0)
    monkeypatch.setattr("keyturn.support.keys._looked", ((), 0.0, None))
    place.chmod(0o644)
    _, found = looked(capsys)
    assert [each["what"] for each in found if each["level"] == "warn"] == ["permissions", "people"]
    [key] = home.rglob("key")
    key.chmod(0o644)
    code, found = looked(capsys)
    assert code == 1
    assert "keys" in bad(found)


def test_a_journal_that_is_not_there_is_bad_and_not_made(
    tmp_path: Path, home: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEYTURN_JOURNAL", raising=False)
    assert looked(capsys)[0] == 1
    code, found = looked(capsys, "--journal", f"sqlite:///{tmp_path}/none.db")
    assert (code, bad(found)) == (1, ["journal"])
    assert not (tmp_path / "none.db").exists()


def test_an_app_that_lacks_an_agent_or_is_not_there_is_bad(place: Path, capsys: Said) -> None:
    waiting(place)
    (place.parent / "doctored.py").write_text(
        "from keyturn import Agent, App\n"
        "from keyturn.testing import ScriptedModel\n"
        "app = App([Agent('other', model=ScriptedModel([]))], 'sqlite:///keyturn.db')\n"
    )
    code, found = looked(capsys, "--app", "doctored:app")
    assert code == 1
    assert "app" in bad(found)
    assert main(["doctor", "--app", "no_such_module:app"]) == 1
    assert "\x1b" not in capsys.readouterr().out


async def test_a_clock_that_is_off_is_found(own_key: None) -> None:
    for off, level in ((0, "ok"), (5_000, "warn"), (120_000, "bad")):
        store = _Off(off)
        [clock] = [each for each in await check_store(store) if each.what == "clock"]
        assert clock.level == level


class _Off(MemoryJournal):
    """A journal whose clock is off."""

    def __init__(self, off: int) -> None:
        super().__init__()
        self._off = off

    async def now(self) -> int:
        return await super().now() + self._off


async def test_runs_that_no_worker_can_move_are_found_with_what_they_need(own_key: None) -> None:
    journal, now = MemoryJournal(lambda: clock[0]), 5_000_000
    clock = [now]
    await App([Agent("desk", model=ScriptedModel())], journal, worker=False).start("desk", "go")
    row = RunRow("newer", "desk", "running", now, now)
    await journal.append("newer", 0, [b"1"], None, Changes(row, format=99))
    clock[0] = now + 75_000
    found = [each for each in await check_store(journal) if each.what == "workers"]
    assert [each.said for each in found] == ["1 run of agent desk due, the first for 75 s, executed by no worker"] * 2
    assert found[0].remedy == "start a worker whose app has the agent 'desk': keyturn worker module:app"
    assert "log format 99" in found[1].remedy
