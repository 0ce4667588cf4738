"""A process that is killed in the middle of a write leaves the old file or the new one, never half of one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests import forked

SIZE = 300_000
# Writes one letter after another, for as long as it lives, and says when it has begun.
WRITER = f"""
import sys
from keyturn import Workspace
files = Workspace(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in b"abcdefgh":
        files.write("file", bytes([letter]) * {SIZE})
"""
# The same with a patch of two files; each of them is whole, though a kill may come between the two.
PATCHER = f"""
import sys
from keyturn import Workspace
from keyturn.tools.filesystem.staging import Change
files = Workspace(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in b"abcdefgh":
        data = bytes([letter]) * {SIZE}
        files.apply([Change(name, files.look(name), data) for name in ("one", "two")])
"""


@pytest.mark.parametrize(("program", "names"), [(WRITER, ["file"]), (PATCHER, ["one", "two"])], ids=["write", "patch"])
def test_a_kill_leaves_whole_files(tmp_path: Path, program: str, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"." * SIZE)
    seen: set[bytes] = set()
    for turn in range(12):
        with forked.Program(["-c", program, str(tmp_path)], stdout=forked.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            # Not to wait for something: to die at another moment each time.
            time.sleep(0.003 * turn)
            os.kill(writer.pid, signal.SIGKILL)
        for name in names:
            data = (tmp_path / name).read_bytes()
            assert len(data) == SIZE
            assert len(set(data)) == 1, "half a file"
            seen.add(data[:1])
    left = [each.name for each in tmp_path.iterdir() if each.name not in names]
    assert all(name.startswith(".keyturn-") and name.endswith(".tmp") for name in left), left
    assert len(seen) > 1, "it did write"
