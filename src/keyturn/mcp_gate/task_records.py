"""What a gate keeps of its tasks, so that its next process goes on with them: one file for each, beside its records.

A file lets nothing run: a call that is continued joins its request, which is claimed at the Keyturn server, once. It
says that a call is forwarded before the call is.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..support.keys import make_directory
from ..support.whole_files import replaced

#: For how many seconds a task is kept at which no client looks.
_KEPT = 86_400.0


class KeptTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds the call of a task, and its result; `forwarded` says that its outcome is known to no other process."""

    client: str
    began: str
    params: dict[str, Any]
    forwarded: bool = False
    result: dict[str, Any] | None = None


class TaskRecords:
    """Reads and writes the tasks of one account; without a folder they are kept in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._here = dict[str, KeptTask]()

    def keep(self, id: str, task: KeptTask) -> None:
        """Keep a task as it is now."""
        if self._folder is None:
            self._here[id] = task
            return
        make_directory(self._folder)
        with replaced(self._path(self._folder, id)) as stream:
            stream.write(msgspec.json.encode(task))

    def find(self, id: str) -> KeptTask | None:
        """Return a task; None where there is none, or it cannot be read."""
        if self._folder is None:
            return self._here.get(id)
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(self._path(self._folder, id).read_bytes(), type=KeptTask)
        return None

    def drop(self, id: str) -> None:
        """Forget a task."""
        self._here.pop(id, None)
        if self._folder is not None:
            self._path(self._folder, id).unlink(missing_ok=True)

    def drop_old(self) -> None:
        """Forget the tasks at which no client looked for a day."""
        paths: list[Path] = [] if self._folder is None else [*self._folder.glob("*.json")]
        for path in paths:
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _KEPT:
                    path.unlink()

    @staticmethod
    def _path(folder: Path, id: str) -> Path:
        return folder / f"{hashlib.sha256(id.encode()).hexdigest()[:32]}.json"
