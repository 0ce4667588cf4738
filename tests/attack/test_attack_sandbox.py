"""What an attack found in the sandbox, held since: the kernel's settings, keys of the session, named pipes."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyturn import BubblewrapExecutor, SandboxUnavailable
from keyturn.tools.processes import bubblewrap
from keyturn.tools.processes.bubblewrap import UnsafeWorkspace

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None or platform.machine() != "x86_64", reason="needs bubblewrap on x86_64"
)
as_root = pytest.mark.skipif(os.getuid() != 0, reason="the settings belong to root")


def inside(place: Path, line: str) -> Any:
    return asyncio.run(BubblewrapExecutor(place).run(["/bin/bash", "-c", line]))


@pytest.mark.trial
@as_root
def test_the_kernels_settings_cannot_be_opened_for_writing(tmp_path: Path) -> None:
    """With "|/w/evil" in core_pattern the kernel runs evil as root, outside. Opened and closed, it is unchanged."""
    for place in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger"):
        assert "opened" not in inside(tmp_path, f"(: >> {place}) && echo opened").stdout


@as_root
def test_nothing_of_proc_is_writable(tmp_path: Path) -> None:
    """The kind. Every file of /proc is tried but the command's own descriptors, which are links out of it."""
    find = (
        "find /proc -maxdepth 5 -path '*/fd/*' -prune -o -path '/proc/[0-9]*/task' -prune -o -type f -writable -print"
    )
    ran = inside(tmp_path, f"for one in $({find}); do (: >> $one) && echo opened $one; done; echo end")
    assert ran.stdout == "end\n"


@as_root
def test_where_the_settings_stay_writable_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` does not believe the options of a program, but tries."""
    mounts = BubblewrapExecutor._mounts

    def without(self: BubblewrapExecutor) -> list[str]:
        line = list(mounts(self))
        at = line.index("/proc", line.index("--remount-ro"))
        return line[: at - 1] + line[at + 1 :]

    monkeypatch.setattr(BubblewrapExecutor, "_mounts", without)
    with pytest.raises(SandboxUnavailable, match="settings can be written"):
        inside(tmp_path, "touch ran")
    assert not (tmp_path / "ran").exists()


HOST = """
import ctypes, asyncio, sys
from keyturn import BubblewrapExecutor
libc = ctypes.CDLL(None)
libc.syscall(250, 1, b"keyturn-attack")
libc.syscall(248, b"user", b"attack:token", b"hunter2-SECRET", 14, -3)
print(asyncio.run(BubblewrapExecutor(sys.argv[1]).run(["/usr/bin/python3", sys.argv[1] + "/look.py"])).stdout)
"""
LOOK = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
key = libc.syscall(249, b"user", b"attack:token", None, 0)
print("errno", ctypes.get_errno())
found = ctypes.create_string_buffer(100)
libc.syscall(250, 11, key, found, 100, 0)
print(found.value)
try:
    print(open("/proc/keys").read())
except OSError:
    print("no list")
"""


@pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="needs the system's python")
def test_keys_of_the_session_cannot_be_read(tmp_path: Path) -> None:
    """H1: no namespace holds keys. The calls are answered with ENOSYS, and the list of names is not there."""
    (tmp_path / "look.py").write_text(LOOK)
    line = [sys.executable, "-c", HOST, str(tmp_path)]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.split("\n")[:3] == ["errno 38", "b''", "no list"], ran.stderr


def test_a_pipe_in_the_workspace_is_warned_of(tmp_path: Path) -> None:
    """L4: who reads from it outside takes orders from inside. It is said once, before anything runs."""
    (tmp_path / "below").mkdir()
    os.mkfifo(tmp_path / "below" / "control")
    executor = BubblewrapExecutor(tmp_path)
    with pytest.warns(UnsafeWorkspace, match="control"):
        asyncio.run(executor.check())
    assert bubblewrap._LOOKED_AT <= 20_000, "the look is bounded"
