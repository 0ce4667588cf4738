"""A command that is given a file which is not there says so, and makes none: whoever named it mistook its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyturn.cli.main import main
from keyturn.cli.with_journal import journal_of

COMMANDS = {
    "copy": (["copy", "{url}", "{target}"], 1),
    "erase": (["erase", "{url}", "--older-than", "90d"], 1),
    "erase at once": (["erase", "{url}", "--older-than", "90d", "--yes"], 1),
    "runs": (["runs", "{url}"], 1),
    "restored": (["restored", "{url}"], 1),
    "restored anyway": (["restored", "{url}", "--anyway"], 1),
    "check": (["check", "{url}"], 2),  # 1 is a promise that was not kept
}


@pytest.mark.parametrize("name", ["runs.db", "with%20space.db", "folder", "link.db", "nowhere/runs.db"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_there_is_not_made(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "leads nowhere")
    before = sorted(tmp_path.rglob("*"))
    words, code = COMMANDS[command]
    given = {"url": f"sqlite:///{tmp_path}/{name}", "target": f"sqlite:///{tmp_path}/target.db"}
    assert main([word.format(**given) for word in words]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"keyturn {words[0]}: there is no journal in ")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_init_made_is_served_and_an_app_has_its_own(
    tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KEYTURN_JOURNAL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "ada", "--journal", "sqlite:///team.db"]) == 0
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert journal_of(None, new=True) == f"sqlite:///{tmp_path}/team.db"
    assert journal_of(None, new=True, recall=False) == "sqlite:///keyturn.db"
    assert main(["serve", "desk:app", "--journal", "sqlite:///other.db"]) == 2
    assert "an app has a journal of its own" in capsys.readouterr().err
