"""Files in memory: they live with a run, are saved with it, and come back with it after a pause."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, cast

from ...core.errors import UserError
from ...core.items import own_copy
from ...core.settable import Sealed
from ..filesystem.jail import Parts
from ..filesystem.problems import FileTooLarge, PathRefused
from .backend import Backend

MOST_BYTES, MOST_FILES = 64 << 20, 10_000


class FileData(TypedDict):
    """Holds one file: its lines, and when it was made and changed; what is no text is one line of base64.

    >>> FileData(content=["milk", ""], created_at="2026-01-01T00:00:00+00:00", modified_at="2026-01-01T00:00:00+00:00")[
    ...     "content"
    ... ]
    ['milk', '']
    """

    content: list[str]
    created_at: str
    modified_at: str
    encoding: NotRequired[str]


def _now() -> str:
    return datetime.now(UTC).isoformat()


class StateBackend(Backend, Sealed):
    """Holds files in memory; `files` maps each path to its lines and times.

    A text that ends with a newline has an empty last line, so that the lines joined are the text. As the backend of an
    agent it says what every run begins with: each run changes a copy of its own.

    >>> backend = StateBackend({"/notes.txt": "milk"})
    >>> backend.write("/list/today.txt", b"eggs\\nbread")
    >>> {path: len(data["content"]) for path, data in backend.files.items()}
    {'/notes.txt': 1, '/list/today.txt': 2}
    """

    in_memory = goes_along = True

    def __init__(
        self, files: Mapping[str, str | FileData | Mapping[str, Any]] | None = None, *, now: Callable[[], str] = _now
    ) -> None:
        self._now = now
        self._changing = threading.RLock()
        self.files: dict[str, FileData] = {}
        for path, given in (files or {}).items():
            self.files[_key(self.parts(path))] = self._file(path, given)
        for path in self.files:
            if any(above in self.files for above in _above(path)):
                self.fits(path)  # which raises; it reads all files, and is not asked of each

    def __repr__(self) -> str:
        return f"StateBackend({len(self.files)} files)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.saved() == other.saved()

    __hash__ = object.__hash__

    @property
    def root(self) -> str:
        """Return that they are in the memory of a run."""
        return "the run's own memory"

    def find(self, parts: Parts) -> bytes | None:
        """Return the bytes of a file, None where there is no such file."""
        data = self.files.get(_key(parts))
        return None if data is None else _bytes(data)

    def put(self, parts: Parts, data: bytes | None) -> None:
        """Put a file in place, or remove it where `data` is None."""
        path = _key(parts)
        if data is None:
            self.files.pop(path, None)
            return
        known = self.files.get(path)
        self._check_room(path, len(data))
        now = self._now()
        self.files[path] = _file(data, known["created_at"] if known else now, now)

    def names(self) -> Mapping[str, int]:
        """Return the path of every file, without a slash in front, and its size."""
        return {path.lstrip("/"): _size(data) for path, data in list(self.files.items())}

    def saved(self) -> Any:
        """Return all files as JSON."""
        return {"state": own_copy(self.files)}

    def restored(self, data: Any) -> Backend:
        """Return the files of one run: those that it saved, or a copy of these."""
        if data is None:
            return StateBackend(self.files, now=self._now)
        if not isinstance(data, dict) or "state" not in data:
            raise UserError("the files of this run are not in memory: resume it with the deps that it had")
        return StateBackend(cast("dict[str, Any]", data)["state"], now=self._now)

    def _check_room(self, path: str, size: int) -> None:
        others = [_size(data) for name, data in self.files.items() if name != path]
        if len(others) >= MOST_FILES or sum(others) + size > MOST_BYTES:
            raise FileTooLarge(
                f"The files in memory would be more than {MOST_FILES}, or have more than {MOST_BYTES} bytes."
            )

    def _file(self, path: str, given: object) -> FileData:
        if isinstance(given, str):
            now = self._now()
            return _file(given.encode(), now, now)
        made: dict[str, Any] = own_copy(dict(cast("Mapping[str, Any]", given))) if isinstance(given, Mapping) else {}
        content: Any = made.get("content")
        if not isinstance(content, list) or not all(isinstance(line, str) for line in cast("list[Any]", content)):
            raise UserError(f"files[{path!r}] must be a text, or a dict with its lines as 'content'")
        now = self._now()
        whole: dict[str, Any] = {"created_at": now, "modified_at": now}
        whole.update(made)
        return cast("FileData", whole)


def _key(parts: Parts) -> str:
    if not parts:
        raise PathRefused("The path is refused: it names the root.")
    return "/" + "/".join(parts)


def _above(path: str) -> Iterator[str]:
    """Return the paths of the directories that a file is in."""
    end = path.find("/", 1)
    while end > 0:
        yield path[:end]
        end = path.find("/", end + 1)


def _file(data: bytes, created: str, modified: str) -> FileData:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        packed = [base64.b64encode(data).decode()]
        return FileData(content=packed, created_at=created, modified_at=modified, encoding="base64")
    return FileData(content=lines, created_at=created, modified_at=modified)


def _bytes(data: FileData) -> bytes:
    if data.get("encoding") == "base64":
        return base64.b64decode("".join(data["content"]))
    return "\n".join(data["content"]).encode()


def _size(data: FileData) -> int:
    if data.get("encoding") == "base64":
        return len(_bytes(data))
    return sum(len(line.encode()) for line in data["content"]) + max(len(data["content"]) - 1, 0)
