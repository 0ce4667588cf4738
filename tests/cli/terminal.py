"""A pseudo-terminal with somebody typing at it: what is typed depends on what was shown."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
PATIENCE = 30  # seconds without a word from the other side


def at_a_terminal(
    arguments: Sequence[str], *typed: tuple[bytes, bytes], environ: dict[str, str] | None = None
) -> tuple[str, int]:
    """Run Python with these arguments; type each answer once its prompt was shown. What was shown, and the exit code.

    A prompt is looked for in what came after the one before it.
    """
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, *arguments], {**environment, **(environ or {})})
    shown, seen, left, last = b"", 0, list(typed), b""
    while _ready(terminal, last):
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        shown += piece
        if left and (at := shown.find(left[0][0], seen)) >= 0:
            seen = at + len(left[0][0])
            last = left.pop(0)[1]
            os.write(terminal, last)
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert not left, f"never asked: {left}\n{shown.decode()}"
    return shown.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


def _ready(terminal: int, last: bytes) -> bool:
    """Whether there is more to read before patience ends.

    A Ctrl-C is typed again after a second of silence: one that comes between Python's prompt and its read is only
    noticed at the next byte.
    """
    for _ in range(PATIENCE):
        if select.select([terminal], [], [], 1)[0]:
            return True
        if last == b"\x03":
            os.write(terminal, last)
    return False
