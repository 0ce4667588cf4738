"""What a server's program says beside the protocol, on its error output: passed on to ours, where it can do nothing.

A person may be deciding at that very terminal. So a program never holds it, and cannot read what is typed there: its
words are escaped and marked as its own, and where they become too many, no more of them are shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from ..render.escape import escape
from .bounds import ASIDE_BYTES, ASIDE_LINE


async def pass_on(words: asyncio.StreamReader, name: str) -> None:
    """Show lines as they come, until there are no more. What is not shown is read all the same: nobody waits for us."""
    line, left = b"", ASIDE_BYTES
    while chunk := await words.read(ASIDE_LINE):
        if left < 0:
            continue
        left -= len(chunk)
        *ended, line = (line + chunk).split(b"\n")
        if len(line) > ASIDE_LINE:
            ended, line = [*ended, line], b""
        for each in ended:
            _show(name, each)
        if left < 0:
            _show(name, b"... (too much to be shown)")
            line = b""
    if line:
        _show(name, line)


def _show(name: str, line: bytes) -> None:
    said = escape(line.decode("utf-8", "backslashreplace").rstrip("\r"), keep="\n\t")
    with contextlib.suppress(OSError, ValueError, AttributeError):  # ours is closed, or there is none
        print(f"[{escape(name, keep='')}] {said}", file=sys.__stderr__, flush=True)
