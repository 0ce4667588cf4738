"""The keeper alone: what it says of a command, and what it does where a system lets nobody adopt orphans."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from keyturn.tools.processes import supervisor

SOURCE = Path(supervisor.__file__).read_text(encoding="utf-8")
PLAIN = SOURCE.replace('sys.platform.startswith("linux")', "False")


def keep(source: str, command: str, *, stop_at: str = "", grace: str = "0.2") -> list[str]:
    """The words of the keeper's two lines; it is told to stop once the command wrote `stop_at`, if that is given."""
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    line = [sys.executable, "-I", "-S", "-c", source, str(theirs.fileno()), grace, "/bin/sh", "-c", command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with ours, subprocess.Popen(line, pass_fds=(theirs.fileno(),), text=True, **pipes) as process:
        theirs.close()
        if stop_at:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{stop_at}\n"
            ours.shutdown(socket.SHUT_WR)
        told = b""
        while data := ours.recv(1024):
            told += data
        assert process.wait(30) == 0
    return told.decode().split()


@pytest.mark.parametrize("source", [SOURCE, PLAIN], ids=["here", "elsewhere"])
def test_it_says_how_a_command_ended(source: str) -> None:
    for command, status in (("exit 3", "3"), ("kill -9 $$", "-9"), ("true", "0"), ("exec /nowhere", "127")):
        assert keep(source, command)[2:] == ["ended", status, "0", "0"]


@pytest.mark.parametrize("source", [SOURCE, PLAIN], ids=["here", "elsewhere"])
def test_it_ends_a_command_when_it_is_told_to(source: str) -> None:
    command = "trap '' TERM; echo deaf; sleep 500"  # longer than any test may take
    _, child, _, status, found, left = keep(source, command, stop_at="deaf")
    assert (status, left) == ("-9", "0")
    assert int(found) > 0
    with pytest.raises(ProcessLookupError):
        os.killpg(int(child), 0)


@pytest.mark.parametrize("source", [SOURCE, PLAIN], ids=["here", "elsewhere"])
def test_whoever_kills_it_is_known_before(source: str) -> None:
    """The command's first act is to kill its keeper: its group was told before it could, so that others can end it."""
    ours, theirs = socket.socketpair()
    command = "kill -9 $PPID; exec sleep 50"
    line = [sys.executable, "-I", "-S", "-c", source, str(theirs.fileno()), "0.2", "/bin/sh", "-c", command]
    with ours, subprocess.Popen(line, pass_fds=(theirs.fileno(),), stdout=subprocess.DEVNULL) as process:
        theirs.close()
        ours.settimeout(30)
        assert process.wait(30) == -signal.SIGKILL
        word, child = ours.recv(1024).split()
        assert word == b"started"
        os.killpg(int(child), signal.SIGKILL)


def test_elsewhere_it_ends_the_group_of_the_command() -> None:
    child = int(keep(PLAIN, "sleep 50 & exit 0")[1])
    with pytest.raises(ProcessLookupError):
        os.killpg(child, 0)


def test_a_program_that_cannot_be_started_is_said() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        number = theirs.fileno()
        line = [sys.executable, "-I", "-S", "-c", SOURCE, str(number), "0.1", "/etc"]
        done = subprocess.run(
            line, pass_fds=(theirs.fileno(),), capture_output=True, text=True, check=False, timeout=30
        )
        assert done.stderr == "/etc cannot be started: Permission denied\n"
        assert ours.recv(100).split()[-4:] == [b"ended", b"127", b"0", b"0"]
