"""The demo from outside: played by nobody, played by a person, left, resumed, and lied to."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyturn.cli.main import main
from tests.cli.terminal import COMMAND, KEYS, SECRET, SOURCE, at_a_terminal, played, processes, unfolded


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that signs states: not the one of whoever runs the tests."""
    monkeypatch.setenv("KEYTURN_SECRET", SECRET)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo that was played to its end: its files, and what was shown."""
    directory = tmp_path_factory.mktemp("finished") / "d"
    done = played("--dir", str(directory), "--scripted", ANTHROPIC_API_KEY="not a key")
    assert (done.returncode, done.stderr) == (0, "")
    return directory, done.stdout


def world(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "world.json").read_text())


def test_without_a_terminal_it_plays_itself(finished: tuple[Path, str]) -> None:
    directory, shown = finished
    first, second = processes(shown)
    assert first != second
    assert f"kill -9 {first}" in shown
    assert "by signal 9" in shown
    assert "Refused, nothing was changed: The arguments of delete_backups are invalid" in shown
    granted = "Approved, and so is every later call that the grant covers."
    for words in ("Approved.", "Approved as you changed it.", "Rejected.", "Answered.", granted):
        assert words in " ".join(shown.split())
    assert "This is what became of it." in shown
    assert "Conflict: this state is stale" in shown
    assert "StateRejected: this state was changed after it was saved" in shown
    assert "\x1b" not in shown
    assert all(len(line) <= 100 for line in shown.splitlines() if str(directory) not in line and " > " not in line)


def test_its_effects_are_real_and_happened_once_in_the_second_process(finished: tuple[Path, str]) -> None:
    directory, shown = finished
    after, (_, second) = world(directory), processes(shown)
    expected = ["delete_backups api-2026-03-01 api-2026-07-01", "rotate_key api", "send_notice #dev"]
    assert sorted(after["effects"]) == [f"{effect}, by process {second}" for effect in [*expected, "send_notice #ops"]]
    assert after["backups"] == ["api-2026-11-01", "api-2026-11-20"]
    assert after["services"]["api"]["restarts"] == 0
    assert "leaked" not in after["services"]["api"]["key"]
    assert [notice["to"] for notice in after["notices"]] == ["#ops", "#dev"]


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    assert played().returncode == 0
    assert not list(tmp_path.glob("keyturn-demo-*"))


def test_it_takes_no_directory_with_something_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["demo", "--play", "--dir", str(tmp_path)]) == 1
    assert "not empty" in capsys.readouterr().err


def test_a_person_decides_at_a_terminal(tmp_path: Path) -> None:
    decide = b"decide > "
    shown, code = at_a_terminal(
        [*COMMAND, "--dir", str(tmp_path / "d")],
        (b"is killed > ", b"\r"),
        (decide, b"w\r"), (b"reads it > ", b"I did it myself\r"),
        (decide, b"r\r"), (b"no reason > ", b"keep them all\r"),
        (decide, b"e\r"), (b"no change > ", b"service=database\r"), (b"no change > ", b"service=worker\r"),
        (decide, b"a\r"),
        (decide, b"w\r"), (b"reads it > ", b"Tell them it is fine.\r"),
        (decide, b"a\r"),
        (decide, b"r\r"), (b"no reason > ", b"\r"),
    )  # fmt: skip
    assert code == 0
    after = world(tmp_path / "d")
    assert [effect.split(",")[0] for effect in after["effects"]] == ["restart_service worker", "send_notice #ops"]
    assert "the key: I did it myself" in shown
    assert "Input should be 'api' or 'worker'" in unfolded(shown)


def as_printed(shown: str, columns: str = "100") -> str:
    """Copy the last command that was shown into a shell; what it shows."""
    printed = shown[shown.rindex("in a week:") :].split("\n", 1)[1]
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "KEYTURN_SECRET": SECRET, "COLUMNS": columns}
    done = subprocess.run(
        ["sh", "-c", printed], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environ, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("columns", ["44", "80", "200"])
def test_the_command_that_is_printed_works_as_it_is_printed(tmp_path: Path, columns: str) -> None:
    directory = tmp_path / "it's a directory"
    shown, _code = at_a_terminal(
        [*COMMAND, "--dir", str(directory)], (b"killed > ", b"\r"), (b"decide > ", b"q\r"),
        environ={"COLUMNS": columns},
    )  # fmt: skip
    if int(columns) > len(str(directory)) + 10:
        assert "This is what became of it." in as_printed(shown, columns)


@pytest.mark.parametrize("leave", [b"\x03", b"\x04", b"q\r"])
def test_to_leave_is_never_an_approval_and_the_run_goes_on_later(tmp_path: Path, leave: bytes) -> None:
    directory = tmp_path / "d"
    shown, code = at_a_terminal(
        [*COMMAND, "--dir", str(directory)],
        (b"is killed > ", b"\r"),
        (b"decide > ", b"r\r"), (b"no reason > ", b"not now\r"),
        (b"decide > ", leave),
    )  # fmt: skip
    assert code == 0
    assert not (directory / "world.json").exists()
    assert "Nothing was decided" not in shown
    resumed = as_printed(shown)
    assert "Decided before: rotate_key: reject" in resumed
    assert "the key: not now" in resumed


@pytest.mark.parametrize("leave", [b"\x03", b"\x04"])
def test_to_leave_before_the_kill_leaves_the_run_in_its_file(tmp_path: Path, leave: bytes) -> None:
    shown, code = at_a_terminal([*COMMAND, "--dir", str(tmp_path / "d")], (b"is killed > ", leave))
    assert (code, len(processes(shown))) == (0, 1)
    assert "killed  " not in shown
    assert json.loads((tmp_path / "d" / "run.json").read_text())["mac"]


def test_a_finished_run_is_not_played_again(finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    directory, _ = finished
    before = world(directory)
    assert main(["demo", "--play", "--resume", str(directory / "run.json")]) == 0
    assert world(directory) == before
    assert "This run is over" in capsys.readouterr().out


@pytest.mark.parametrize("how", [lambda text: "", lambda text: "{}", lambda text: text[:-2], lambda text: "[" * 9999])
def test_a_file_that_is_no_run_is_refused_in_words(
    finished: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], how: Any
) -> None:
    path = tmp_path / "run.json"
    path.write_text(how((finished[0] / "run.json").read_text()))
    assert main(["demo", "--play", "--resume", str(path)]) == 1
    assert capsys.readouterr().err.startswith("keyturn demo: this ")


def test_a_forged_file_is_refused_in_words(
    finished: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text = tmp_path / "run.json", (finished[0] / "run.json").read_text()
    path.write_text(text.replace("staging", "Staging", 1))
    assert main(["demo", "--play", "--resume", str(path)]) == 1
    assert "was changed after it was saved" in capsys.readouterr().err


def test_another_key_cannot_read_the_file(
    finished: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", "another-secret-of-mine")
    assert main(["demo", "--play", "--resume", str(finished[0] / "run.json")]) == 1
    assert "KEYTURN_SECRET" in capsys.readouterr().err
