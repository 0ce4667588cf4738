"""Print names and errors of a command: escaped, and folded so that no data begins a row of the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import LiteralString, TextIO
from urllib.parse import unquote

from ..core.errors import StorageError
from ..render.escape import arrived, escape
from ..render.terminal import NARROWEST, hanging


def print_labelled(lead: LiteralString, text: str) -> None:
    """Print a message on stderr, behind words of ours."""
    print_row(f"{lead}: {escape(text, keep='')}", sys.stderr)


def print_row(row: str, stream: TextIO) -> None:
    """Print a row that begins with a word of ours and whose data is escaped, folded where the stream is a terminal."""
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    if width is not None and width < NARROWEST:
        print("this terminal is too narrow", file=stream)
        return
    # The last look: whatever a command, or a server, left in a row that could act is escaped here.
    for part in hanging(arrived(row, keep=""), width):
        print(part, file=stream)


def command() -> str:
    """Return how this program is started from here: as `keyturn` where that is this one, else by a path.

    >>> command().endswith(("keyturn", "keyturn.cli.main"))
    True
    """
    script = Path(sys.executable).with_name("keyturn.exe" if os.name == "nt" else "keyturn")
    known = shutil.which("keyturn")
    if known is not None and script.exists() and Path(known).resolve() == script.resolve():
        return "keyturn"
    start = script if script.exists() else Path(sys.executable)
    near = os.path.relpath(start) if start.is_relative_to(Path.cwd()) else str(start)
    quoted = shlex.quote(near)
    return quoted if script.exists() else f"{quoted} -m keyturn.cli.main"


def must_be_there(url: str) -> None:
    """Refuse a file that does not exist: a journal would create it, and the name was probably mistaken."""
    path = Path(unquote(url.removeprefix("sqlite:///")))
    if url.startswith("sqlite:///") and not path.is_file():
        raise StorageError(f"there is no journal in {str(path)!r}")
