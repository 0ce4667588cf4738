"""Find programs below a path, read them, and write them back: whole or not at all, as they were but for the text.

No symbolic link is followed. What was written meanwhile by somebody else is left as it is.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_NOT_OURS = {"__pycache__", "node_modules", "site-packages"}
_PROGRAMS = (".py", ".pyi")
_RELATIVE = re.compile(rb"^[ \t\f]*from[ \t\f]*\.", re.MULTILINE)


class Source(NamedTuple):
    """Holds a file as it was read."""

    path: Path
    text: bytes
    mode: int
    identity: tuple[int, int]


class NotWritten(Exception):
    """Raised for a file that was not written; the text says why."""


def programs(path: Path) -> Iterator[Path]:
    """Yield the program that a path is, or those below it, by name; environments and hidden folders are left out."""
    if path.is_file():
        yield path
        return
    for folder, names, files in os.walk(path, followlinks=False):
        here = Path(folder)
        names[:] = sorted(name for name in names if _is_searched(here / name))
        for name in sorted(files):
            if name.endswith(_PROGRAMS) and not (here / name).is_symlink():
                yield here / name


def _is_searched(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in _NOT_OURS
    return not (hidden or folder.is_symlink() or (folder / "pyvenv.cfg").exists())


def own_module(path: Path, root: Path) -> Path | None:
    """Return the program's own module called `agents` that its imports mean, if there is one.

    A folder without `__init__.py` is none: the installed package comes before it. A module of a package whose programs
    import each other relatively is none: it is imported by the package's name.
    """
    folder = path.parent
    top = root if root.is_dir() else root.parent
    while True:
        for own in (folder / "agents.py", folder / "agents" / "__init__.py"):
            if own.exists() and not _is_package(folder):
                return own
        if folder == top or folder == folder.parent:
            return None
        folder = folder.parent


def _is_package(folder: Path) -> bool:
    """Return whether a folder's programs only run as parts of a package, so that it is not searched for imports."""
    if not (folder / "__init__.py").exists():
        return False
    return any(_RELATIVE.search(path.read_bytes()) for path in sorted(folder.glob("*.py")) if path.is_file())


def read(path: Path) -> Source:
    """Read a file."""
    with path.open("rb") as file:
        told = os.fstat(file.fileno())
        return Source(path, file.read(), stat.S_IMODE(told.st_mode), (told.st_dev, told.st_ino))


def write(source: Source, text: bytes) -> None:
    """Put a text in the place of the one that was read, in one move, with the same mode."""
    handle, name = tempfile.mkstemp(prefix=f".{source.path.name}.", suffix=".tmp", dir=source.path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), source.mode)
            os.fsync(file.fileno())
        told = os.lstat(source.path)
        if (told.st_dev, told.st_ino) != source.identity or source.path.read_bytes() != source.text:
            raise NotWritten("it changed while it was looked at; look again")
        os.replace(name, source.path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
