"""The demo from outside: played by nobody, played by a person, left, resumed, and lied to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import SOURCE, at_a_terminal

COMMAND = ["-P", "-m", "keyturn.cli.main", "demo"]
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that signs states: not the one of whoever runs the tests."""
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


def played(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **environ}
    return subprocess.run(
        [sys.executable, *COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=50,
    )


def processes(shown: str) -> list[str]:
    return re.findall(r"^  process (\d+)", shown, re.MULTILINE)


def world(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "world.json").read_text())


def test_without_a_terminal_it_plays_itself(tmp_path: Path) -> None:
    done = played("--dir", str(tmp_path / "d"))
    shown = done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    first, second = processes(shown)
    assert first != second
    assert f"kill -9 {first}" in shown
    assert "by signal 9" in shown
    assert "Refused, nothing was changed. The arguments of delete_backups are invalid" in shown
    for word in (
        "Approved.",
        "Approved as you changed it.",
        "Rejected.",
        "Answered.",
        "and later calls of send_notice",
    ):
        assert word in shown
    assert "This is what became of it." in shown
    assert "Conflict: this state is stale" in shown
    assert "StateRejected: this state was changed after it was saved" in shown
    assert "\x1b" not in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_its_effects_are_real_and_happened_once_in_the_second_process(tmp_path: Path) -> None:
    done = played("--dir", str(tmp_path / "d"))
    _, second = processes(done.stdout)
    after = world(tmp_path / "d")
    assert after["effects"] == [
        f"{effect}, by process {second}"
        for effect in sorted(
            ("rotate_key api", "delete_backups api-2026-03-01 api-2026-07-01", "send_notice #ops", "send_notice #dev"),
            key=lambda effect: [line.startswith(effect) for line in after["effects"]].index(True),
        )
    ]
    assert after["backups"] == ["api-2026-11-01", "api-2026-11-20"]
    assert after["services"]["api"]["restarts"] == 0
    assert "leaked" not in after["services"]["api"]["key"]
    assert [notice["to"] for notice in after["notices"]] == ["#ops", "#dev"]


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    assert played().returncode == 0
    assert not list(tmp_path.glob("keyturn-demo-*"))


def test_it_takes_no_directory_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "thesis.txt").write_text("mine")
    done = played("--dir", str(tmp_path / "d"))
    assert done.returncode == 1
    assert "not empty" in done.stderr


def test_it_says_which_model_plays(tmp_path: Path) -> None:
    done = played("--dir", str(tmp_path / "d"), ANTHROPIC_API_KEY="not a key")
    assert "scripted" in done.stdout
    assert "ANTHROPIC_API_KEY is set; Anthropic will play here" in " ".join(done.stdout.split())
    assert "not a key" not in done.stdout


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
    assert "Input should be 'api' or 'worker'" in shown


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
    assert f"keyturn demo --resume {directory / 'run.json'}" in shown
    assert not (directory / "world.json").exists()
    done = played("--resume", str(directory / "run.json"))
    assert done.returncode == 0
    assert "rotate_key was decided before: reject." in done.stdout
    assert "the key: not now" in done.stdout


@pytest.mark.parametrize("leave", [b"\x03", b"\x04"])
def test_to_leave_before_the_kill_leaves_the_run_in_its_file(tmp_path: Path, leave: bytes) -> None:
    shown, code = at_a_terminal([*COMMAND, "--dir", str(tmp_path / "d")], (b"is killed > ", leave))
    assert (code, len(processes(shown))) == (0, 1)
    assert "killed  " not in shown
    assert json.loads((tmp_path / "d" / "run.json").read_text())["mac"]


def test_a_finished_run_is_not_played_again(tmp_path: Path) -> None:
    assert played("--dir", str(tmp_path / "d")).returncode == 0
    before = world(tmp_path / "d")
    done = played("--resume", str(tmp_path / "d" / "run.json"))
    assert (done.returncode, world(tmp_path / "d")) == (0, before)
    assert "This run is over" in done.stdout


def test_a_forged_or_foreign_file_is_refused_in_words(tmp_path: Path) -> None:
    played("--dir", str(tmp_path / "d"))
    path = tmp_path / "d" / "run.json"
    text = path.read_text()
    for wrong in ("", "{}", text.replace("ops", "abc", 1), text[:-2]):
        path.write_text(wrong)
        done = played("--resume", str(path))
        assert done.returncode == 1
        assert done.stderr.startswith("keyturn demo: ")
        assert "Traceback" not in done.stderr


def test_another_key_cannot_read_the_file(tmp_path: Path) -> None:
    played("--dir", str(tmp_path / "d"))
    done = played("--resume", str(tmp_path / "d" / "run.json"), KEYTURN_SECRET="another secret of mine")
    assert done.returncode == 1
    assert "KEYTURN_SECRET" in done.stderr
