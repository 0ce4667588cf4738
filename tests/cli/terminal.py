"""Commands as others see them: at a pseudo-terminal, with somebody typing at it.

What is typed depends on what was shown. No test is here.
"""

from __future__ import annotations

import os
import pty
import re
import select
from collections.abc import Sequence
from pathlib import Path

from tests import forked

SOURCE = Path(__file__).resolve().parents[2] / "src"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
SECRET = "the-secret-of-these-tests"
PATIENCE = 30  # seconds without a word from the other side


def unfolded(shown: str) -> str:
    """What was shown, with the rows put together that were folded behind a margin."""
    return re.sub(r"\n +: ", "", shown)


def at_a_terminal(
    arguments: Sequence[str], *typed: tuple[bytes, bytes], environ: dict[str, str] | None = None
) -> tuple[str, int]:
    """Run Python with these arguments; type each answer once its prompt was shown. What was shown, and the exit code.

    A prompt is looked for in what came after the one before it.
    """
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}
    terminal, follower = pty.openpty()
    program = forked.Program(arguments, env={**environment, **(environ or {})}, terminal=follower, children=True)
    os.close(follower)
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
        program.kill()
    os.close(terminal)
    code = program.wait()
    assert not left, f"never asked: {left}\n{shown.decode(errors='backslashreplace')}"
    return shown.decode(errors="backslashreplace").replace("\r\n", "\n"), code


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
