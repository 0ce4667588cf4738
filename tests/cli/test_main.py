"""The command line's front door: it lists commands, and imports only the one that is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyturn._version import __version__
from keyturn.cli.main import COMMANDS, GROUPS, command_named, main
from tests import forked
from tests.cli.terminal import SOURCE


def test_without_a_command_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed and what.partition(":")[0] in listed for name, what in COMMANDS.items())
    assert [row for row in listed.splitlines() if row.removesuffix(":") in GROUPS] == [f"{title}:" for title in GROUPS]


def test_a_row_of_the_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert [row for row in capsys.readouterr().out.splitlines() if len(row) > 80] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert (stop.value.code, capsys.readouterr().out) == (0, f"keyturn {__version__}\n")


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["nonsense"])
    assert stop.value.code == 2
    assert "unknown command 'nonsense': keyturn --help lists the commands" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"), [("aprove", "approve"), ("request", "requests"), ("user", "users"), ("claims", "claim")]
)
def test_a_command_that_is_spelled_almost_like_another_is_suggested(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([typed, "0d1b61ec"])
    assert f"unknown command {typed!r}: did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_can_say_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = command_named(name)
    assert callable(command.describe)
    assert callable(command.run)
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    assert f"usage: keyturn {name}" in capsys.readouterr().out


def test_the_front_door_is_quick() -> None:
    """Neither pydantic nor the engine is needed to print a version."""
    code = "import sys, json, keyturn.cli.main; print(json.dumps([m for m in sys.modules if m.startswith('keyturn')]))"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    light = {
        "keyturn",
        "keyturn.support",
        "keyturn.support.lazy",
        "keyturn.support.missing",
        "keyturn._version",
        "keyturn.cli",
        "keyturn.cli.main",
    }
    assert set(json.loads(done.stdout)) == light


def test_what_cannot_be_done_is_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--journal", "sqlite:////nowhere/keyturn.db"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "keyturn runs: there is no journal in '/nowhere/keyturn.db'\n"


@pytest.mark.trial
def test_a_command_at_a_server_names_the_package_that_it_lacks() -> None:
    code = "import sys; sys.modules['httpx2'] = None; from keyturn.cli.main import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "KEYTURN_TOKEN": "kt_1_2"}
    for name, words in (("requests", []), ("acp", ["--", "ls"])):
        command = [sys.executable, "-c", code, name, "--server", "http://localhost:1", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode != 0
        assert done.stderr == f"keyturn {name}: the client needs httpx2: pip install 'keyturn[server]'\n"


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "KEYTURN_SECRET": "the-secret-of-these-tests"}
    command = ["-m", "keyturn.cli.main", "demo", "--scripted", "--once", "--dir", str(tmp_path / "d")]
    with forked.Program(command, stdout=forked.PIPE, stderr=forked.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 141
