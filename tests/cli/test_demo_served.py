"""The demo as it is in earnest: a server, a worker that dies, two people; with nobody there, and with somebody."""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from keyturn.cli.main import main
from tests import forked
from tests.cli.terminal import KEYS, SECRET, SOURCE, at_a_terminal, unfolded

COMMAND = ["-P", "-m", "keyturn.cli.main", "demo", "--scripted"]


def environ(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    own = {"PYTHONPATH": str(SOURCE), "KEYTURN_SECRET": SECRET, "TMPDIR": str(home), "KEYTURN_HOME": str(home / "keys")}
    return {**kept, **own, **more}


@pytest.mark.trial
@pytest.mark.timeout(400)
def test_with_nobody_there_it_decides_kills_its_worker_and_ends(tmp_path: Path) -> None:
    done = forked.run(
        COMMAND,
        stdin=forked.DEVNULL,
        capture_output=True,
        text=True,
        env=environ(tmp_path),
        check=False,
        timeout=140,
        children=True,
    )
    shown = done.stdout
    assert done.returncode == 0
    assert done.stderr == (
        "keyturn demo: standard input is not a terminal, so the demo decides by itself and ends (--once)\n"
    )
    assert "was stopped while it charged a card" in shown
    assert "refund: 2 of 2" in shown
    assert "this call was already decided: reject by ada" in shown
    assert re.search(r"kill -9 \d+", shown)
    assert "support: refund was approved" in shown
    assert "4 effects, each of them once" in shown
    assert "it requires a decision signed with" in unfolded(shown)
    assert not list(tmp_path.glob("keyturn-demo-*"))


@pytest.mark.timeout(400)
def test_it_stays_up_lets_people_in_by_links_and_ends_when_told(tmp_path: Path) -> None:
    leader, follower = os.openpty()
    options: Any = {"stdin": follower, "stdout": forked.PIPE, "text": True, "env": environ(tmp_path)}
    process = forked.Program(COMMAND, children=True, **options)
    assert process.stdout is not None
    try:
        shown = ""
        ends = time.monotonic() + 120
        while "Press Ctrl-C to stop" not in shown and time.monotonic() < ends:
            shown += process.stdout.readline()
        links = re.findall(r"(http://localhost:\d+)/enter#(kt\w+)", shown)
        assert len(links) == 2
        assert links[0][1] != links[1][1]
        with urllib.request.urlopen(f"{links[0][0]}/enter", timeout=20) as answer:
            assert answer.status == 200
        [home] = tmp_path.glob("keyturn-demo-*")
        assert (home / "ada.token").stat().st_mode & 0o77 == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not home.exists()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(leader)
        os.close(follower)


def test_it_takes_no_directory_with_something_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["demo", "--once", "--scripted", "--dir", str(tmp_path)]) == 1
    assert "not empty" in capsys.readouterr().err


@pytest.mark.trial
@pytest.mark.timeout(400)
def test_in_the_terminal_the_same_calls_wait_in_its_inbox(tmp_path: Path) -> None:
    shown, code = at_a_terminal(
        [*COMMAND, "--terminal"], (b"delete_backups", b"q"), environ=environ(tmp_path, **dict.fromkeys(KEYS, ""))
    )
    assert code == 0
    assert "inbox --journal sqlite:///" in shown
    assert "/ in process" not in shown
    assert not list(tmp_path.glob("keyturn-demo-*"))


def test_what_a_providers_model_asks_for_is_decided_by_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--once", "--model", "openai:m"]) == 1
    assert "require decisions in a terminal" in capsys.readouterr().err
