"""Changing a value from what it is: in the line that is typed where Python has readline, in `$EDITOR` where it is long.

The value is a model's: only what shows itself as it is, is put on the line, and in a file what does not is escaped.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..render.escape import escape, unescape
from ..render.one_row import LONG as LONG
from ..render.one_row import columns_of as columns_of
from ..render.one_row import fits_a_line as fits_a_line
from ..render.one_row import is_plain


@contextmanager
def unremembered() -> Generator[None]:
    """Keep what is typed out of readline's history, which some programs write to a file: it may be a secret."""
    readline = sys.modules.get("readline")
    if readline is None or not hasattr(readline, "set_auto_history"):
        yield
        return
    readline.set_auto_history(False)
    try:
        yield
    finally:
        readline.set_auto_history(True)


@contextmanager
def typed_before(present: str) -> Generator[None]:
    """Begin the next line that is typed with a text if Python has readline; else the line is empty."""
    try:
        import readline  # not on Windows
    except ImportError:
        yield
        return
    readline.set_startup_hook(lambda: readline.insert_text(present))
    try:
        yield
    finally:
        readline.set_startup_hook()


def editor_of(environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """Return the command of somebody's editor, or None if none is named.

    >>> editor_of({"EDITOR": "code --wait"})
    ['code', '--wait']
    """
    named = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        return shlex.split(named, posix=os.name != "nt") or None
    except ValueError:
        return None


def in_editor(text: str, command: list[str], run: Callable[[list[str]], int] | None = None) -> str | None:
    """Let somebody change a text in their editor; return None if it ended badly.

    A text that does not show itself as it is stands escaped in the file, and is read back: `ValueError` where what is
    read was not written like that.
    """
    raw = is_plain(text.replace("\n", "").replace("\t", ""))
    written = text if raw else escape(text, keep="\n\t")
    # A directory for its owner's eyes only: editors leave copies beside a file.
    with tempfile.TemporaryDirectory(prefix="keyturn-", ignore_cleanup_errors=True) as directory:
        path = Path(directory, "value.txt")
        path.write_text(written, encoding="utf-8", newline="\n")
        if (run or _run)([*command, str(path)]) != 0:
            return None
        read = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    if read.endswith("\n") and not written.endswith("\n"):  # which most editors add
        read = read[:-1]
    return read if raw else unescape(read)


def _run(command: list[str]) -> int:
    """Run an editor; Ctrl-C belongs to it while it has the screen, and ends one that does nothing else with it."""
    if threading.current_thread() is not threading.main_thread():
        return _returned(command)
    # Not SIG_IGN, which the editor would inherit.
    before = signal.signal(signal.SIGINT, _ignore)
    try:
        return _returned(command)
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore(_signal: int, _frame: object) -> None:
    """Leave a signal to the program that has the screen."""


def _returned(command: list[str]) -> int:
    try:
        return subprocess.run(command, check=False).returncode
    except OSError:
        return 1
