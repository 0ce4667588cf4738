"""Marks outside of a store, in the user's state directory: how far each store had come, to notice a restore.

A store that is behind its mark was brought back from a copy. A mark is raised after a commit, so it is never ahead of
what is durable. One that cannot be read or written harms nobody: nothing is noticed then, and nothing fails.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ..core.errors import UserError
from ..support.keys import make_directory, state_directory

_COUNT = 8
_MOST = 1_000
_BETWEEN = 100  # new marks, from one look for old ones to the next
_MOST_BYTES = 1 << 16
#: No store comes as far: it stands in the marks of what a place held before it was settled under a new id.
REPLACED = (1 << 63) - 1
log = logging.getLogger("keyturn.journal")


class HighWaterMark:
    """Keeps how far a store had come at one place: a number in a file, written without fsync.

    It outlives the process, killed or not. It is read and written, not mapped: a file that is cut short under a mapping
    ends the process.
    """

    def __init__(self, path: Path, place: str) -> None:
        make_directory(path.parent)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        weakref.finalize(self, os.close, self._file)
        self._told = False
        self.row = 0
        self._about = b""
        self.now()
        self._about = _about(place)
        with suppress(OSError):
            self._write()

    def reached(self, row: int) -> None:
        """Record that the store has come that far; warn once where that cannot be written."""
        if row <= self.now():
            return
        self.row = row
        try:
            self._write()
        except OSError as error:
            if not self._told:
                log.warning("the mark of the store cannot be written, so a restored copy may go unnoticed: %s", error)
            self._told = True

    def _write(self) -> None:
        content = self.row.to_bytes(_COUNT, "little") + self._about
        if os.pwrite(self._file, content, 0) != len(content):
            raise OSError(errno.ENOSPC, "the mark could not be written whole")

    def now(self) -> int:
        """Return how far the store had come when anybody last recorded it, as far as this process can tell."""
        try:
            content = os.pread(self._file, _COUNT + len(self._about), 0)
            if not self._about or content[_COUNT:] != self._about:  # another process wrote the rest, or none did yet
                content = os.pread(self._file, _MOST_BYTES, 0)
                _said(content)
            row = int.from_bytes(content[:_COUNT], "little")
            if row <= REPLACED:
                self.row = max(self.row, row)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return self.row


def _about(place: str) -> bytes:
    dev = ino = 0
    with suppress(OSError, ValueError):
        found = os.stat(place)
        dev, ino = found.st_dev, found.st_ino
    return json.dumps({"path": place, "dev": dev, "ino": ino}).encode() + b"\n"


@dataclass(frozen=True)
class _Seen:
    """Holds what a mark says."""

    row: int
    path: str
    dev: int
    ino: int

    def is_at(self, place: str) -> bool:
        """Return whether this is the mark of that place: the same name, or the same file by another name."""
        return self.path == place or (self.ino != 0 and (self.dev, self.ino) == _inode(place))

    def lives(self) -> bool:
        """Return whether the file that it was made for still exists."""
        return self.ino != 0 and (self.dev, self.ino) == _inode(self.path)


def _inode(place: str) -> tuple[int, int] | None:
    with suppress(OSError, ValueError):
        found = os.stat(place)
        return found.st_dev, found.st_ino
    return None


def mark_of(store: str, place: str) -> HighWaterMark | None:
    """Open the mark of a store at a place, made where there is none; None where nothing can be kept."""
    try:
        path = _folder() / f"{_plain(store)}-{_which(place)}"
        if not path.exists():
            _prune(_folder())
        return HighWaterMark(path, place)
    except (OSError, ValueError, UserError, RuntimeError) as error:
        log.info("no mark of how far %s came can be kept, a restored backup would not be noticed: %s", place, error)
        return None


def replace_marks(place: str) -> None:
    """Retire what this place held until now: brought back to it, that is a restored copy."""
    with suppress(OSError, ValueError, UserError, RuntimeError):
        which = f"-{_which(place)}"
        for name in sorted(name for name in os.listdir(_folder()) if name.endswith(which)):
            HighWaterMark(_folder() / name, place).reached(REPLACED)


def known(store: str, place: str) -> tuple[int, bool]:
    """Return how far a store was seen to be, here or else anywhere, and whether it lives only elsewhere."""
    seen = list(_seen(store))
    own = [mark for mark in seen if mark.is_at(place)]
    furthest = max((mark.row for mark in own or seen), default=0)
    return furthest, not own and any(mark.lives() for mark in seen)


def noticed(row: int, furthest: int, elsewhere: bool) -> str | None:
    """Return why a store is a restored copy; None where it is as far as it was ever seen."""
    if row == 0:  # nothing in it could run twice
        return None
    if row >= furthest:
        return "is a copy of a store that still exists" if elsewhere else None
    if furthest == REPLACED:
        return "was restored from a backup: its content was settled before, and continued under a new name"
    return f"was restored from a backup: it is at {row}, and {furthest} was seen"


def is_template(store: str, place: str, row: int) -> bool:
    """Return whether an empty store was copied to make many of: each of them is a store of its own."""
    seen = list(_seen(store))
    return row == 0 and bool(seen) and not any(mark.is_at(place) for mark in seen)


def _seen(store: str) -> Iterator[_Seen]:
    with suppress(OSError, RuntimeError):
        begins = f"{_plain(store)}-"
        for name in sorted(name for name in os.listdir(_folder()) if name.startswith(begins)):
            with suppress(OSError, ValueError, KeyError, TypeError):
                yield _said((_folder() / name).read_bytes())


def _said(content: bytes) -> _Seen:
    """Read a mark; raise for one that is not whole."""
    about = json.loads(content[_COUNT:].partition(b"\n")[0])
    row = int.from_bytes(content[:_COUNT], "little")
    if row > REPLACED:
        raise ValueError("the mark holds a number that no store reaches")
    return _Seen(row, str(about["path"]), int(about["dev"]), int(about["ino"]))


def _folder() -> Path:
    return state_directory() / "stores"


def _which(place: str) -> str:
    return sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _plain(store: str) -> str:
    """Return the id as part of a file name, whatever somebody wrote in its place."""
    return store if store.isalnum() and store.isascii() else sha256(store.encode("utf-8", "replace")).hexdigest()[:32]


def _prune(folder: Path) -> None:
    """Delete the oldest marks of files that are gone, once there are very many; not each time, since it reads them."""
    with suppress(OSError):
        count = len(os.listdir(folder))
        if count <= _MOST or count % _BETWEEN:
            return
        marks = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in marks[: count - _MOST]:
            _forget(path)


def _forget(path: Path) -> None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads(path.read_bytes()[_COUNT:].partition(b"\n")[0])
        if about["ino"] and not os.path.exists(about["path"]):
            path.unlink()
