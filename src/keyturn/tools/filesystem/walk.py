"""Walk through the directories below an open one, in order, without following a link.

Says what is there, name by name, and counts what it passes by. Only the standard library is used: searches run in a
bare process of their own.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

from .ignore import FILES, MOST_BYTES, Rules

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
TIME_UP = "the time was up"
DEEPEST = 128  # every level holds a directory open
NEVER = frozenset({".git", ".hg", ".svn", ".jj"})

Scopes = tuple[tuple[str, Rules], ...]


@dataclass
class Walk:
    """Says what to take on the way and when to stop, and counts what was skipped.

    `apart` is the device and inode of a directory that is not entered.

    >>> Walk(end=time.monotonic()).late()
    True
    """

    hidden: bool = False
    ignoring: bool = True
    end: float = float("inf")
    apart: tuple[int, int] | None = None
    passed: dict[str, int] = field(default_factory=dict[str, int])
    stopped: str = ""

    def late(self) -> bool:
        """Return whether the time is up; the walk ends then, and says so."""
        if not self.stopped and time.monotonic() >= self.end:
            self.stopped = TIME_UP
        return bool(self.stopped)

    def pass_by(self, why: str) -> None:
        """Count something that is skipped."""
        self.passed[why] = self.passed.get(why, 0) + 1

    def files(self, top: int, names: Iterable[str] = ()) -> Generator[tuple[str, int, list[str]], None, None]:
        """Yield each directory from `names` below `top` on.

        Each is its path ("" or "a/b/"), its open descriptor and the names of its plain files.
        """
        with ExitStack() as opened:
            current = top
            prefix = ""
            scopes = self._scopes(top, "", ())
            for name in names:
                current, prefix = os.open(name, DIRECTORY, dir_fd=current), f"{prefix}{name}/"
                opened.callback(os.close, current)
                scopes = self._scopes(current, prefix, scopes)
            yield from self._below(current, prefix, scopes, 0)

    def _below(
        self, here: int, prefix: str, scopes: Scopes, depth: int
    ) -> Generator[tuple[str, int, list[str]], None, None]:
        files, directories = self._taken(here, prefix, scopes)
        if files:
            yield prefix, here, files
        for name in directories:
            if self.late():
                return
            if depth >= DEEPEST:
                self.pass_by("too deep")
                continue
            try:
                below = os.open(name, DIRECTORY, dir_fd=here)
            except OSError:
                self.pass_by("unreadable")
                continue
            try:
                path = f"{prefix}{name}/"
                if self._is_apart(below):
                    self.pass_by("Keyturn's state directory")
                    continue
                yield from self._below(below, path, self._scopes(below, path, scopes), depth + 1)
            finally:
                os.close(below)

    def _is_apart(self, directory: int) -> bool:
        if self.apart is None:
            return False
        found = os.fstat(directory)
        return [found.st_dev, found.st_ino] == [*self.apart]

    def _taken(self, here: int, prefix: str, scopes: Scopes) -> tuple[list[str], list[str]]:
        files: list[str] = []
        directories: list[str] = []
        for entry in self._entries(here):
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            else:
                self.pass_by("links and special files")
        if scopes:
            files = [name for name in files if not self._ignored(prefix + name, False, scopes)]
            directories = [name for name in directories if not self._ignored(prefix + name, True, scopes)]
        return sorted(files), sorted(directories)

    def _entries(self, here: int) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(here) as found:
                return [entry for entry in found if self._wanted(entry.name)]
        except OSError:
            self.pass_by("unreadable")
            return []

    def _wanted(self, name: str) -> bool:
        if name in NEVER:
            return False
        if name[0] == "." and not self.hidden:
            self.pass_by("hidden")
            return False
        return True

    def _ignored(self, path: str, directory: bool, scopes: Scopes) -> bool:
        for prefix, rules in reversed(scopes):
            verdict = rules.ignores(path[len(prefix) :], directory)
            if verdict is not None:
                if verdict:
                    self.pass_by("ignored")
                return verdict
        return False

    def _scopes(self, here: int, prefix: str, above: Scopes) -> Scopes:
        """Return the ignore rules that hold in a directory: those from above, and its own."""
        if not self.ignoring:
            return ()
        own = tuple((prefix, Rules(text)) for name in FILES if (text := _read_rules(here, name)) is not None)
        return above + own


def _read_rules(here: int, name: str) -> str | None:
    data = read_plain(here, name, MOST_BYTES)
    return data.decode(errors="replace") if isinstance(data, bytes) else None


def read_plain(here: int, name: str, most: int) -> bytes | str:
    """Read all of a plain file, or return why not: "missing", "unreadable" or "too large"."""
    try:
        handle = os.open(name, _FILE, dir_fd=here)
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "unreadable"
    try:
        known = os.fstat(handle)
        if not stat.S_ISREG(known.st_mode):
            return "unreadable"
        if known.st_size > most:
            return "too large"
        data = os.read(handle, known.st_size + 1)
        # Nearly always that was all; a file that grows, or says that it is empty, is read on.
        while data and len(data) != known.st_size and len(data) <= most and (more := os.read(handle, 1 << 20)):
            data += more
        return data if len(data) <= most else "too large"
    except OSError:
        return "unreadable"
    finally:
        os.close(handle)
