"""Whether a store is still the one it was, or a copy that was brought back: a restored backup, a promoted standby.

What ran after the copy was made is not in the copy, and would run again. So a store has an id and a generation, and
how far it had come is known outside of it: for a file in marks in the user's state directory, for PostgreSQL by the
server's identity and timeline. A store that is behind says so until every call that may have run was put in doubt.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..core.errors import StoreRestored, UserError
from ..keys import make_directory, state_directory
from . import statements as say
from .store_thread import Connection

ID, GENERATION, RESTORED, PLACE = "id", "generation", "restored", "place"
_SIZE = 4096
_COUNT = 8
_MOST = 1_000
log = logging.getLogger("keyturn.journal")


@dataclass
class Origin:
    """What this process knows of where a store comes from; all views of the store share it.

    `why` says why the store is taken for a restored one, as long as it is not settled. `mark` is a file's.
    """

    why: str | None = None
    mark: Mark | None = None

    def check(self) -> None:
        """Refuse to let anything start in a store that was restored and is not settled."""
        if self.why is not None:
            raise StoreRestored(
                f"this store {self.why}: what it lets run may have run already, so nothing is started from it; "
                "`keyturn restored URL` puts every such call in doubt, and so does a worker when it begins"
            )


def read_meta(db: Connection) -> dict[str, str]:
    """Read what a store says of itself."""
    found: list[Any] = db.execute(say.META)
    return {name: value for name, value in found if isinstance(name, str) and isinstance(value, str)}


def begin(db: Connection) -> None:
    """Give a new store its id and its first generation."""
    _set(db, {ID: secrets.token_hex(16), GENERATION: "1"})


def _set(db: Connection, new: dict[str, str]) -> None:
    place = db.place()
    for name, value in (new | ({} if place is None else {PLACE: place})).items():
        db.execute(say.SET_META, name, value)


def next_generation(db: Connection) -> None:
    """Make a store that was settled a store of its own, which has nothing more to do with what it was copied from."""
    known = read_meta(db).get(GENERATION, "1")
    count = int(known) + 1 if known.isdecimal() and len(known) < 18 else 1
    _set(db, {ID: secrets.token_hex(16), GENERATION: str(count)})
    db.execute(say.DROP_META, RESTORED)


def look(db: Connection, origin: Origin) -> None:
    """See whether a store is still where its meta says it is, or was noticed elsewhere; for what has a place."""
    meta, place = read_meta(db), db.place()
    origin.why = meta.get(RESTORED)
    known = meta.get(PLACE)
    if origin.why is None and None not in (known, place) and known != place:
        origin.why = "was restored or promoted: it is on another server, timeline or database than it was"
        db.execute(say.SET_META, RESTORED, origin.why)


# Files --------------------------------------------------------------------------------------------------------------


class Mark:
    """How far one file of a store had come, outside of the file: a count in the page cache, never waited for.

    It is raised after a commit, so it is never ahead of what is durable; killed or not, the process leaves it behind.
    Written and never mapped: in a mapped file a full disk, or somebody who truncates it, ends the process.
    """

    def __init__(self, path: Path, file: Path) -> None:
        make_directory(path.parent)
        place = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._place = place
        weakref.finalize(self, os.close, place)
        found = file.stat()
        about = json.dumps({"path": str(file), "dev": found.st_dev, "ino": found.st_ino}).encode()
        self._about = about + b"\n" if len(about) < _SIZE - _COUNT else b""
        self._told = False
        self._row = self._read()
        self._write(self._row)

    def reached(self, row: int) -> None:
        """Say that the file has come that far; where that cannot be written, say so once."""
        if row <= self._row:
            return
        try:
            self._row = max(row, self._read())
            self._write(self._row)
        except OSError as error:
            if self._told:
                return
            self._told = True
            log.warning("how far the store came cannot be kept, a copy brought back may not be noticed: %s", error)

    def _read(self) -> int:
        """Read how far other processes came, too."""
        return int.from_bytes(os.pread(self._place, _COUNT, 0), "little")

    def _write(self, row: int) -> None:
        content = row.to_bytes(_COUNT, "little") + self._about
        if os.pwrite(self._place, content, 0) != len(content):
            raise OSError(errno.ENOSPC, "the mark could not be written whole")


@dataclass(frozen=True)
class _Seen:
    """What a mark says."""

    row: int
    path: str
    dev: int
    ino: int

    def is_at(self, file: Path) -> bool:
        """Whether this is the mark of that file: the same name, or the same file by another name."""
        found = file.stat()
        return self.path == str(file) or (self.dev, self.ino) == (found.st_dev, found.st_ino)

    def lives(self) -> bool:
        """Whether the file that it was made for is still there."""
        with suppress(OSError, ValueError):
            found = os.stat(self.path)
            return (self.dev, self.ino) == (found.st_dev, found.st_ino)
        return False


def mark_of(store: str, file: Path) -> Mark | None:
    """Open the mark of a store's file, made where there is none; None where nothing can be kept."""
    try:
        folder = _folder()
        which = sha256(str(file).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        path = folder / f"{_plain(store)}-{which}"
        if not path.exists():
            _prune(folder)
        return Mark(path, file)
    except (OSError, ValueError, UserError) as error:
        log.info("no mark of how far %s came can be kept, a copy brought back would not be noticed: %s", file, error)
        return None


def noticed(store: str, file: Path, row: int) -> str | None:
    """Say why a file is a copy that was brought back; None where it is as far as it was ever seen."""
    seen = list(_seen(store))
    if row == 0:  # nothing in it could run twice
        return None
    own = [mark for mark in seen if mark.is_at(file)]
    furthest = max((mark.row for mark in own or seen), default=0)
    if row < furthest:
        return f"was brought back from a copy: it has {row} lines, and {furthest} were seen"
    if not own and any(mark.lives() for mark in seen):
        return "is a copy of a store that is still there, and goes on by itself"
    return None


def is_template(store: str, file: Path, row: int) -> bool:
    """Whether an empty store was copied to make many of: each of them is a store of its own."""
    seen = list(_seen(store))
    return row == 0 and bool(seen) and not any(mark.is_at(file) for mark in seen)


def _seen(store: str) -> Iterator[_Seen]:
    with suppress(OSError, UserError):
        for path in sorted(_folder().glob(f"{_plain(store)}-*")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                content = path.read_bytes()
                about = json.loads(content[_COUNT:].partition(b"\n")[0])
                row = int.from_bytes(content[:_COUNT], "little")
                yield _Seen(row, str(about["path"]), int(about["dev"]), int(about["ino"]))


def _folder() -> Path:
    return state_directory() / "stores"


def _plain(store: str) -> str:
    """The id as part of a file's name, whatever somebody wrote in its place."""
    return store if store.isalnum() and store.isascii() else sha256(store.encode("utf-8", "replace")).hexdigest()[:32]


def _prune(folder: Path) -> None:
    """Forget the oldest marks of files that are gone, once there are very many."""
    with suppress(OSError):
        marks = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in marks[: max(0, len(marks) - _MOST)]:
            _forget(path)


def _forget(path: Path) -> None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads(path.read_bytes()[_COUNT:].partition(b"\n")[0])
        if not os.path.exists(about["path"]):
            path.unlink()
