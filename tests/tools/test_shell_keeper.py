"""The keeper alone: what it says of a command, and what it does where a system lets nobody adopt orphans."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keyturn.tools import shell_keeper

SOURCE = Path(shell_keeper.__file__).read_text(encoding="utf-8")
PLAIN = SOURCE.replace('sys.platform.startswith("linux")', "False")


def keep(source: str, command: str, *, until: str = "ended", grace: str = "0.2") -> list[str]:
    """The words of the keeper's two lines; with another `until` it is told to stop once it has said that."""
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    line = [sys.executable, "-I", "-S", "-c", source, str(theirs.fileno()), grace, "/bin/sh", "-c", command]
    process = subprocess.Popen(line, pass_fds=(theirs.fileno(),), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    theirs.close()
    with ours:
        told = b""
        while until.encode() not in told:
            told += ours.recv(1024)
        ours.shutdown(socket.SHUT_WR)
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
    started = time.monotonic()
    _, child, _, status, found, left = keep(source, "trap '' TERM; sleep 50; sleep 50", until="started")
    assert (status, left) == ("-9", "0")
    assert int(found) > 0
    with pytest.raises(ProcessLookupError):
        os.killpg(int(child), 0)
    assert time.monotonic() - started < 20


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
