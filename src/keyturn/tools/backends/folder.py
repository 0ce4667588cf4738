"""Files below a folder of this machine, in the jail of a workspace; with a sandbox, commands too."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from ...core.settable import Sealed
from ..filesystem.jail import Parts, parts_of
from ..filesystem.numbered_lines import LINES
from ..filesystem.search import Found, SearchQuery
from ..filesystem.staging import Change, File
from ..filesystem.workspace import MAX_FILE_BYTES, PROTECTED, DirectoryEntry, Workspace
from ..processes.bubblewrap import BubblewrapExecutor
from .backend import Backend


class _FolderLock:
    """Says whether a thread of this process has a folder: all backends of one folder have the same lock."""

    def __init__(self) -> None:
        self.thread = threading.RLock()
        self.held = False


_LOCKS: WeakValueDictionary[str, _FolderLock] = WeakValueDictionary()


class FilesystemBackend(Backend, Sealed):
    """Reads and changes the files below a folder, which must exist: nothing outside of it, and through no link.

    `shell` is the executor of `execute`, such as `LocalExecutor(folder)`; without one there is no `execute`. What is in
    `protected` is read but never changed.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> backend = FilesystemBackend(place.name)
    >>> backend.write("/notes/today.txt", b"milk")
    >>> [entry.name for entry in backend.entries("/notes")]
    ['today.txt']
    >>> place.cleanup()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        shell: Any = None,
        max_file_bytes: int = MAX_FILE_BYTES,
        protected: Iterable[str] = PROTECTED,
    ) -> None:
        self.workspace = Workspace(folder, max_file_bytes=max_file_bytes, protected=protected)
        self.max_file_bytes = max_file_bytes
        self.shell = shell
        self._folder = _LOCKS.setdefault(self.root, _FolderLock())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.root == self.root

    __hash__ = object.__hash__

    @property
    def root(self) -> str:
        """Return the folder, links resolved."""
        return self.workspace.root

    def parts(self, path: str, *, directory: bool = False) -> Parts:
        """Split a path into names; the folder's own path, as commands print it, is its root too."""
        below = path.removeprefix(self.root) if f"{path}/".startswith(f"{self.root}/") else path
        return super().parts(below or "/", directory=directory) if path else parts_of(path, directory=directory)

    def changeable(self, path: str) -> Parts:
        """Return the names of a path to a file that may be changed, as far as the path itself can say."""
        return self.workspace.changeable(self._inside(path))

    def find(self, parts: Parts) -> bytes | None:
        """Return the bytes of a file, None where there is no such file."""
        found = self.workspace.look("/".join(parts))
        return None if found is None else found.data

    def put(self, parts: Parts, data: bytes | None) -> None:
        """Put a file in place, or remove it where `data` is None."""
        path = "/".join(parts)
        self.workspace.apply([Change(path, self.workspace.look(path), data)])

    def names(self) -> Mapping[str, int]:
        """Return the path of every plain file that a search would find, and its size."""
        query = SearchQuery(None, glob="**/*", most=10_000, hidden=True, ignoring=False)
        return {name: len(self.find(tuple(name.split("/"))) or b"") for name in self.workspace.search(".", query).lines}

    def look(self, path: str) -> File | None:
        """Read a file as it is now, None where there is none."""
        return self.workspace.look(self._inside(path))

    def fits(self, path: str) -> None:
        """Refuse a path where a file is in the place of a directory, or a directory in that of the file."""
        self.workspace.fits(self._inside(path))

    def check(self, change: Change) -> None:
        """Refuse a change that is never made, whatever the files hold."""
        self.workspace.check(change)

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all of these changes, or none."""
        self.workspace.apply(changes)

    def lines(self, path: str, offset: int = 0, limit: int = LINES) -> str:
        """Return a part of a text file as numbered lines."""
        return self.workspace.lines(self._inside(path), offset, limit)

    def entries(self, path: str = ".") -> list[DirectoryEntry]:
        """List a directory, by name."""
        return self.workspace.entries(self._inside(path, directory=True))

    def search(self, path: str, query: SearchQuery) -> Found:
        """Look for names or for text below a directory, or for text in one file."""
        return self.workspace.search(self._inside(path, directory=True), query)

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Lock the folder against every other change, of this process or another."""
        with self._folder.thread:  # whoever has the folder already, has it
            if self._folder.held:
                yield
                return
            with self.workspace.alone():
                self._folder.held = True
                try:
                    yield
                finally:
                    self._folder.held = False

    def _inside(self, path: str, *, directory: bool = False) -> str:
        return "/".join(self.parts(path, directory=directory)) or "."


class SandboxBackend(FilesystemBackend):
    """Reads and changes the files below a folder, and runs commands there in a sandbox of bubblewrap (Linux).

    Commands can write in the folder, see the programs of the system and nothing else, and reach no network. The
    options are those of `BubblewrapExecutor`.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> SandboxBackend(place.name, timeout=30).shell.about()["network"]
    False
    >>> place.cleanup()
    """

    _remedies = dict.fromkeys(
        ("network", "unix_sockets", "readable", "writable", "timeout", "env"), "make another SandboxBackend"
    )

    def __init__(self, folder: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(folder, shell=BubblewrapExecutor(folder, **options))
