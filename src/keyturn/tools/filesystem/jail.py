"""The jail: opens a file or directory by a path that a model wrote, below one root, or refuses.

No path is ever given to the system whole. It is walked name by name, each opened in the directory before it and no
link followed, so that a link that somebody puts in its place meanwhile is refused as well: what was checked is what is
open. Keyturn's own state directory is refused wherever it lies: whoever reads its keys can make decisions. Nothing here
reads or writes content.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...core.errors import UserError
from ...support.keys import state_place
from .problems import FileMissing, FileProblem, PathRefused, problem, shown

Parts = tuple[str, ...]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe must not make us wait for its other end, and a device not become our terminal.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LONGEST_NAME, _LONGEST_PATH = 255, 4096


def parts_of(path: str, *, directory: bool = False) -> Parts:
    """Split a path into names; raise `PathRefused` for one that cannot lie inside a workspace.

    >>> parts_of("src/./app.py")
    ('src', 'app.py')
    >>> parts_of("../secret")
    Traceback (most recent call last):
    ...
    keyturn.tools.filesystem.problems.PathRefused: The path '../secret' is refused: '..' is not allowed.
    """
    why = _fault(path)
    if why is None:
        names = tuple(name for name in path.split("/") if name not in ("", "."))
        if directory or (names and not path.endswith(("/", "/."))):
            return names
        why = "it names a directory" if path else "it is empty"
    raise PathRefused(f"The path {shown(path)} is refused: {why}.")


def _fault(path: str) -> str | None:
    names = path.split("/")
    if path.startswith("/"):
        return "it is absolute; paths are relative to the root of the workspace"
    if ".." in names:
        return "'..' is not allowed"
    if names[0] == "~":
        return "'~' is not expanded; paths are relative to the root of the workspace"
    if any(unicodedata.category(char) == "Cc" for char in path):
        return "it holds a control character"
    try:
        sizes = [len(name.encode()) for name in names]
    except UnicodeEncodeError:
        return "it holds half a character"
    if max(sizes) > _LONGEST_NAME or sum(sizes) + len(sizes) > _LONGEST_PATH:
        return "it is too long"
    return None


class Jail:
    """Opens files and directories below one root directory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, Jail(place).directory(()) as root:
    ...     os.listdir(root)
    []
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        # Where the workspace is, is the user's word: only there links may lead. What it leads to now is the root.
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise UserError(f"the root of a workspace must be a directory that exists, not {str(root)!r}; create it")

    @contextmanager
    def directory(self, parts: Parts, *, create: bool = False) -> Generator[int, None, None]:
        """Open a directory; with `create`, make it where it is missing, its parents too."""
        path, keys = "/".join(parts) or ".", state_place()
        try:
            current = os.open(self.root, _DIRECTORY)
        except OSError as error:
            raise problem(error, ".") from None
        try:
            _refuse_keys(current, keys, path)
            for name in parts:
                below = _step(current, name, path, create)
                os.close(current)
                current = below
                _refuse_keys(current, keys, path)
            yield current
        finally:
            os.close(current)

    @contextmanager
    def file(self, parts: Parts) -> Generator[tuple[int, os.stat_result], None, None]:
        """Open a plain file for reading, and return it with its stat."""
        path = "/".join(parts)
        with self.directory(parts[:-1]) as parent:
            opened = open_plain(parent, parts[-1], path)
        if opened is None:
            raise FileMissing(f"There is no {shown(path)} in the workspace.")
        try:
            yield opened
        finally:
            os.close(opened[0])


def _refuse_keys(directory: int, keys: tuple[int, int] | None, path: str) -> None:
    found = os.fstat(directory)
    if (found.st_dev, found.st_ino) == keys:
        raise PathRefused(f"The path {shown(path)} is refused: it leads into Keyturn's state directory, with its keys.")


def open_plain(parent: int, name: str, path: str) -> tuple[int, os.stat_result] | None:
    """Open a plain file in an open directory, None where there is nothing; everything else is refused unopened."""
    try:
        refuse_special(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
        opened = os.open(name, _FILE, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise problem(error, path) from None
    try:
        # Between the look and the opening it may have become another thing.
        found = os.fstat(opened)
        refuse_special(found, path)
    except BaseException:
        os.close(opened)
        raise
    return opened, found


_KINDS = {
    stat.S_IFLNK: "it is a symbolic link",
    stat.S_IFDIR: "it is a directory",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFBLK: "it is a device",
    stat.S_IFCHR: "it is a device",
}


def refuse_special(found: os.stat_result, path: str) -> None:
    """Raise `PathRefused` for everything that is not a plain file."""
    if not stat.S_ISREG(found.st_mode):
        why = _KINDS.get(stat.S_IFMT(found.st_mode), "it is not a plain file")
        raise PathRefused(f"The path {shown(path)} is refused: {why}.")


def _step(parent: int, name: str, path: str, create: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError as error:
        if not create:
            raise problem(error, path) from None
    except OSError as error:
        raise _why_no_directory(error, parent, name, path) from None
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        pass  # somebody was faster; what they made is opened as carefully as everything else
    except OSError as error:
        raise problem(error, path) from None
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _why_no_directory(error, parent, name, path) from None


def _why_no_directory(error: OSError, parent: int, name: str, path: str) -> FileProblem:
    """Say that a link is in place of a directory, which the system reports as "not a directory"."""
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        try:
            linked = stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        except OSError:
            linked = False
        return problem(OSError(errno.ELOOP if linked else errno.ENOTDIR, ""), path)
    return problem(error, path)
