"""A workspace: the operations on files below one root, and on nothing above it.

The operations that tools, editors and backends stand on, as plain blocking calls. Every path goes through the jail,
every write through `staging`. Who may do what, when, and who is asked is not known here.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

from ...core.settable import Sealed
from ...support.keys import state_place
from .globs import BadGlob
from .jail import Jail, Parts, parts_of
from .numbered_lines import LINES, numbered_lines
from .problems import FileMissing, FileProblem, FileTooLarge, PathRefused, problem, shown
from .search import Found, SearchFailed, SearchQuery, search
from .staging import Change, File, Staged, read_file
from .text_edit import replaced

# Programs run what is in these; the second one is what some file systems call the first.
PROTECTED = (".git", "git~1", ".hg", ".jj")
MAX_FILE_BYTES = 4 << 20
MOST_LINES = 250_000  # a change of more cannot be shown in good time
_PATIENCE = 30.0  # seconds that one change waits for another one


class DirectoryEntry(NamedTuple):
    """Describes one name in a directory."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    size: int


class Workspace(Sealed):
    """Reads and changes the files below `root`, which must exist; links are never followed.

    Files up to `max_file_bytes` are read and written whole. Names in `protected` are read but never changed:
    what is in `.git` is run by git.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> files = Workspace(place.name)
    >>> files.write("notes/today.txt", b"buy milk")
    >>> files.read("notes/today.txt").text
    'buy milk'
    >>> files.read("../etc/passwd")
    Traceback (most recent call last):
    ...
    keyturn.tools.filesystem.problems.PathRefused: The path '../etc/passwd' is refused: '..' is not allowed.
    >>> place.cleanup()
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        protected: Iterable[str] = PROTECTED,
    ) -> None:
        self.jail = Jail(root)
        self.max_file_bytes = max_file_bytes
        self.protected = frozenset(_folded(name) for name in protected)

    @property
    def root(self) -> str:
        """Return where it is on this machine, links resolved."""
        return str(self.jail.root)

    def parts(self, path: str, *, directory: bool = False) -> Parts:
        """Split a path into names, or raise `PathRefused`."""
        return parts_of(path, directory=directory)

    def canonical(self, path: str, *, directory: bool = False) -> str:
        """Return the one spelling of a path, or raise `PathRefused`.

        >>> Workspace(".").canonical("./src//app.py")
        'src/app.py'
        """
        return "/".join(self.parts(path, directory=directory)) or "."

    def look(self, path: str) -> File | None:
        """Read a file as it is now, None where there is none."""
        parts = parts_of(path)
        try:
            with self.jail.directory(parts[:-1]) as parent:
                return read_file(parent, parts, self.max_file_bytes)
        except FileMissing:
            return None

    def read(self, path: str) -> File:
        """Read a file as it is now."""
        found = self.look(path)
        if found is None:
            raise FileMissing(f"There is no {shown(path)} in the workspace.")
        return found

    def write(self, path: str, data: bytes) -> None:
        """Write `data` to a file, whole or not at all; missing directories are made."""
        with self.alone():
            self.apply([Change(path, self.look(path), data)])

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self.alone():
            self.apply([Change(path, self.read(path), None)])

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all of these changes, or none.

        All new content is on the disk before the first file is touched. A file that is no longer what its change was
        made for stops it, and what was done until then is undone.
        """
        for change in changes:
            self.check(change)
        changes = [change for change in changes if change.before is None or change.after != change.before.data]
        with ExitStack() as stack:
            staged = [stack.enter_context(Staged(self.jail, change, self.max_file_bytes)) for change in changes]
            done: list[Staged] = []
            try:
                for one in staged:
                    done.append(one)
                    one.commit()
            except BaseException as error:
                _undo(done, error)
                raise

    def edited(self, path: str, old: str, new: str, every: bool = False) -> Change:
        """Return the change that puts `new` in place of `old`, exactly once or everywhere."""
        before = self.read(path)
        text, _ = replaced(before.text, old, new, every, most=self.max_file_bytes)
        return Change(before.path, before, text.encode())

    def lines(self, path: str, offset: int = 0, limit: int = LINES) -> str:
        """Return a part of a text file as numbered lines."""
        return numbered_lines(self.jail, path, offset, limit)

    def search(self, path: str, query: SearchQuery) -> Found:
        """Look for names or for text below a directory, or for text in one file."""
        parts = parts_of(path, directory=True)
        names, only = self._place(parts, query.pattern is not None)
        try:
            with self.jail.directory(()) as root:
                return search(root, replace(query, names=names, only=only, apart=state_place()))
        except (SearchFailed, BadGlob) as error:
            raise FileProblem(f"The search failed: {error}.") from None
        except OSError as error:
            raise problem(error, path) from None

    def _place(self, parts: Parts, may_be_file: bool) -> tuple[Parts, str | None]:
        try:
            with self.jail.directory(parts):
                return parts, None
        except PathRefused:
            if not may_be_file or not parts:
                raise
            with self.jail.file(parts):
                return parts[:-1], parts[-1]

    def check(self, change: Change) -> None:
        """Refuse a change that this workspace never makes, whatever is on the disk."""
        parts = self.changeable(change.path)
        if change.after is not None and len(change.after) > self.max_file_bytes:
            raise FileTooLarge(
                f"{shown('/'.join(parts))} would have {len(change.after)} bytes; {self.max_file_bytes} are allowed."
            )
        for data in (change.after, change.before and change.before.data):
            if data is not None and data.count(b"\n") > MOST_LINES:
                raise FileTooLarge(
                    f"{shown('/'.join(parts))} has more than {MOST_LINES} lines, too many to be changed."
                )

    def changeable(self, path: str) -> Parts:
        """Return the names of a path to a file that may be changed, as far as the path itself can say."""
        parts = parts_of(path)
        for name in parts:
            if _folded(name) in self.protected:
                raise PathRefused(f"The path {shown(path)} is refused: what is in {name!r} may be read, not changed.")
        return parts

    def fits(self, path: str) -> None:
        """Refuse a path where a file is in the place of a directory, a directory in that of the file, or a link."""
        parts = parts_of(path)
        try:
            with self.jail.file(parts):
                pass
        except FileMissing:
            pass

    def entries(self, path: str = ".") -> list[DirectoryEntry]:
        """List a directory, by name."""
        with self.jail.directory(parts_of(path, directory=True)) as here, os.scandir(here) as found:
            made = [_entry(here, each) for each in found]
        return sorted(made)

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Lock the root against every other change, of this process or another; `write` and `delete` lock it too."""
        with self.jail.directory(()) as root:
            _lock(root)
            yield


def _undo(done: list[Staged], error: BaseException) -> None:
    left = [one.path for one in reversed(done) if not one.undone()]
    if left:
        names = ", ".join(map(shown, left))
        raise FileProblem(f"{error} What was changed before that could not be undone in {names}.") from error


def _lock(root: int) -> None:
    """Take an advisory lock on the root directory, which ends with the process that holds it."""
    end = time.monotonic() + _PATIENCE
    pause = 0.001
    while True:
        try:
            fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise FileProblem("The workspace is busy: another change of it does not end. Try again.") from None
        except OSError as error:
            raise problem(error, ".") from None
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _entry(parent: int, found: os.DirEntry[str]) -> DirectoryEntry:
    name = found.name
    if found.is_symlink():
        return DirectoryEntry(name, "link", 0)
    if found.is_dir(follow_symlinks=False):
        return DirectoryEntry(name, "directory", 0)
    try:
        known = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:  # it is gone already
        return DirectoryEntry(name, "other", 0)
    return DirectoryEntry(name, "file" if stat.S_ISREG(known.st_mode) else "other", known.st_size)


def _folded(name: str) -> str:
    """Fold a name as the most forgiving file system does: no case, no invisible marks, no dots at the end."""
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold().rstrip(" .")
