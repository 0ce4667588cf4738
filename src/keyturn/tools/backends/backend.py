"""The seam to a backend: the files that a deep agent reads and changes, wherever they are.

A member says what is in a file, changes one, and lists all; everything else stands on that, unless the place has a
better way. Paths are a model's words: they are split and refused by the jail's rules before a member sees them. Who may
do what, and who is asked, is not known here.
"""

from __future__ import annotations

import abc
import io
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...core.errors import UserError
from ..filesystem.jail import Parts, parts_of
from ..filesystem.numbered_lines import LINES, numbered
from ..filesystem.problems import FileChanged, FileMissing, FileProblem, FileTooLarge, PathRefused, shown
from ..filesystem.search import Found, SearchQuery
from ..filesystem.staging import Change, File, digest_of
from ..filesystem.text_edit import replaced
from ..filesystem.workspace import MAX_FILE_BYTES, MOST_LINES, DirectoryEntry, Workspace

_SEARCHED = 64 << 20  # bytes that are laid out for one search


class Backend(abc.ABC):
    """Holds files for a deep agent; subclass it to keep them in a place of your own.

    A path may begin with a slash, which is the root of the backend and not of the machine. `shell` runs the commands of
    `execute`, and is None where there is none.

    >>> class Shelf(Backend):
    ...     root = "a shelf"
    ...     def __init__(self): self.kept = {}
    ...     def find(self, parts): return self.kept.get("/".join(parts))
    ...     def put(self, parts, data): self.kept["/".join(parts)] = data
    ...     def names(self): return {name: len(data) for name, data in self.kept.items()}
    >>> shelf = Shelf()
    >>> shelf.write("/notes/today.txt", b"milk")
    >>> shelf.read("notes/today.txt").text
    'milk'
    """

    max_file_bytes: int = MAX_FILE_BYTES
    in_memory: bool = False  # it dies with its process, and what a lost call did to it with it
    goes_along: bool = False  # files of it are saved with their run
    shell: Any = None  # the executor of `execute`

    @property
    @abc.abstractmethod
    def root(self) -> str:
        """Return where the files are, as people know it: an approval is for this place and no other."""

    @abc.abstractmethod
    def find(self, parts: Parts) -> bytes | None:
        """Return the bytes of a file, None where there is no such file."""

    @abc.abstractmethod
    def put(self, parts: Parts, data: bytes | None) -> None:
        """Put a file in place, or remove it where `data` is None."""

    @abc.abstractmethod
    def names(self) -> Mapping[str, int]:
        """Return the path of every file, without a slash in front, and its size."""

    def saved(self) -> Any:
        """Return what a paused run keeps of this backend, as JSON: what is in memory, else only where it is."""
        return {"elsewhere": self.root}

    def restored(self, data: Any) -> Backend:
        """Return the backend of one run, from what the run saved, or None for a run that begins."""
        if data is not None and data != {"elsewhere": self.root}:
            raise UserError(f"the files of this run are not in {self.root}: resume it with the deps that it had")
        return self

    def parts(self, path: str, *, directory: bool = False) -> Parts:
        """Split a path into names, or raise `PathRefused`."""
        inside = path.lstrip("/")
        if not inside and path:
            inside = "."
        return parts_of(inside, directory=directory)

    def canonical(self, path: str, *, directory: bool = False) -> str:
        """Return the one spelling of a path, from the root of the backend, or raise `PathRefused`."""
        return "/" + "/".join(self.parts(path, directory=directory))

    def changeable(self, path: str) -> Parts:
        """Return the names of a path to a file that may be changed, as far as the path itself can say."""
        return self.parts(path)

    def look(self, path: str) -> File | None:
        """Read a file as it is now, None where there is none."""
        parts = self.parts(path)
        data = self.find(parts)
        return None if data is None else File("/".join(parts), data)

    def read(self, path: str) -> File:
        """Read a file as it is now."""
        found = self.look(path)
        if found is None:
            raise FileMissing(f"There is no {shown(path)} in the workspace.")
        return found

    def write(self, path: str, data: bytes) -> None:
        """Write `data` to a file."""
        with self.alone():
            self.apply([Change("/".join(self.changeable(path)), self.look(path), data)])

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self.alone():
            self.apply([Change("/".join(self.changeable(path)), self.read(path), None)])

    def edited(self, path: str, old: str, new: str, every: bool = False) -> Change:
        """Return the change that puts `new` in place of `old`, exactly once or everywhere."""
        before = self.read(path)
        text, _ = replaced(before.text, old, new, every, most=self.max_file_bytes)
        return Change(before.path, before, text.encode())

    def check(self, change: Change) -> None:
        """Refuse a change that is never made, whatever the files hold."""
        parts = self.changeable(change.path)
        if change.after is None:
            return
        if len(change.after) > self.max_file_bytes:
            raise FileTooLarge(
                f"{shown('/'.join(parts))} would have {len(change.after)} bytes; {self.max_file_bytes} are allowed."
            )
        if change.after.count(b"\n") > MOST_LINES:
            raise FileTooLarge(f"{shown('/'.join(parts))} has more than {MOST_LINES} lines, too many to be changed.")

    def apply(self, changes: Sequence[Change]) -> None:
        """Make these changes; a file that is no longer what its change was made for stops it."""
        with self.alone():
            for change in changes:
                self.check(change)
                self.fits(change.path)
                if digest_of(self.look(change.path)) != digest_of(change.before):
                    raise FileChanged(
                        f"{shown(change.path)} was changed since it was looked at, so nothing was changed. "
                        "Read it again."
                    )
            for change in changes:
                self.put(self.parts(change.path), change.after)

    def fits(self, path: str) -> None:
        """Refuse a path where a file is in the place of a directory, or a directory in that of the file."""
        parts = self.parts(path)
        path = "/".join(parts)
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        for name in self.names():
            if name in above:
                raise PathRefused(f"The path {shown(path)} is refused: {shown(name)} is a file.")
            if name.startswith(f"{path}/"):
                raise PathRefused(f"The path {shown(path)} is refused: it is a directory.")

    def lines(self, path: str, offset: int = 0, limit: int = LINES) -> str:
        """Return a part of a text file as numbered lines."""
        return numbered(io.BytesIO(self.read(path).data), path, offset, limit)

    def entries(self, path: str = ".") -> list[DirectoryEntry]:
        """List a directory, by name."""
        parts = self.parts(path, directory=True)
        before = "".join(f"{name}/" for name in parts)
        found: dict[str, DirectoryEntry] = {}
        for name, size in self.names().items():
            if name.startswith(before):
                first, _, deeper = name[len(before) :].partition("/")
                found[first] = DirectoryEntry(first, "directory", 0) if deeper else DirectoryEntry(first, "file", size)
        if not found and parts:
            raise FileMissing(f"There is no directory {shown(path)} in the workspace.")
        return [found[name] for name in sorted(found)]

    def search(self, path: str, query: SearchQuery) -> Found:
        """Look for names or for text; the files are laid out below a folder of their own for it."""
        parts = self.parts(path, directory=True)
        with tempfile.TemporaryDirectory(prefix="keyturn-search-") as place:
            if not self._laid_out(parts, Path(place)):
                if parts:
                    raise FileMissing(f"There is no {shown(path)} in the workspace.")
                return Found()
            return Workspace(place).search("/".join(parts) or ".", query)

    def _laid_out(self, parts: Parts, place: Path) -> int:
        below, size = "/".join(parts), 0
        found = {name: size for name, size in self.names().items() if not below or f"{name}/".startswith(f"{below}/")}
        for name in found:
            data = self.find(tuple(name.split("/"))) or b""
            size += len(data)
            if size > _SEARCHED:
                raise FileProblem(f"The files to search have more than {_SEARCHED} bytes; search in a smaller place.")
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
        return len(found)

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Lock the files against every other change."""
        with self._lock():
            yield

    def places(self) -> list[Backend]:
        """Return the backends in which its files really are."""
        return [self]

    def _lock(self) -> threading.RLock:
        # Made when it is first needed, so that a member need not call our `__init__`.
        return vars(self).setdefault("_changing", threading.RLock())
