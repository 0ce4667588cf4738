"""The world outside, which no crash takes back: what tools did to it stands in a file, a line each."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, NamedTuple


class Deed(NamedTuple):
    """One thing that a tool did: for which run, under which key, and what."""

    run: str
    key: str
    what: str


class World:
    """A file that effects are appended to. `die` is when the process ends at an effect: before or after which."""

    def __init__(self, path: Path, die: tuple[str, int] | None = None) -> None:
        self.path, self._die, self._count = path, die, 0
        path.touch()

    def act(self, context: Any, what: str) -> str:
        """Do something that cannot be undone; what was done comes back."""
        self._count += 1
        self._perhaps_die("before")
        self.mark(context, what)
        self._perhaps_die("after")
        return what

    def mark(self, context: Any, what: str) -> None:
        """Write a line without counting it as an effect, if it begins with a tilde."""
        line = f"{context.run_id}\t{context.idempotency_key}\t{what}\n".encode()
        place = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(place, line)
        os.close(place)

    def deeds(self) -> list[Deed]:
        """All that was done, in order."""
        lines = self.path.read_text().splitlines()
        return [deed for deed in (Deed(*line.split("\t")) for line in lines) if not deed.what.startswith("~")]

    def did(self, key: str) -> list[str]:
        """What was done under a key: how a person sees whether a call in doubt happened."""
        return [deed.what for deed in self.deeds() if deed.key == key]

    def marked(self, key: str) -> bool:
        """Whether there is any line under a key."""
        return any(line.split("\t")[1] == key for line in self.path.read_text().splitlines())

    @property
    def count(self) -> int:
        """How many effects this process began."""
        return self._count

    def _perhaps_die(self, when: str) -> None:
        if self._die == (when, self._count):
            os.kill(os.getpid(), signal.SIGKILL)
