"""The database of a soak with a standby, which is promoted: with all that was committed, or without the last of it.

The standby streams. Promoted without lag, the primary stops as one that is shut down, and has sent everything. With lag
the standby is down for a moment before the primary crashes, so that the commits of that moment are in neither again.
Then another standby is made of the new primary.
"""
# pyright: reportPrivateUsage=false
# A standby is started as the server of tests is.

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from keyturn.testing.postgres import _GUARD, Postgres, _account, _binaries, _free_port, _run

LAG = 1.5  # for how long what is committed is lost, in seconds


class Cluster:
    """Knows which server of a folder is the primary, and has its standby promoted."""

    def __init__(self, server: Postgres, database: str) -> None:
        self._folder, self._binaries = server.directory, _binaries()
        self._account = _account()
        self._base, self._database = server.url.rpartition(":")[0], database.rpartition("/")[2]
        self._data, self.port = server.directory / "data", int(server.url.rpartition(":")[2].partition("/")[0])
        self._names = count()
        self._standby: tuple[Path, int] | None = None
        self._guards: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """Return where the primary is now."""
        return f"{self._base}:{self.port}/{self._database}"

    def crash(self) -> None:
        """Stop the primary as a crash does, and start it again."""
        self._ctl(self._data, "-m", "immediate", "-l", self._folder / "log", "restart")

    def promote(self, *, lag: bool) -> None:
        """Let the standby be the primary: whoever is led there finds what it has."""
        if self._standby is None:
            self._follow()
        assert self._standby is not None
        data, port = self._standby
        if lag:
            self._ctl(data, "-m", "fast", "stop")
            time.sleep(LAG)
        self._ctl(self._data, "-m", "immediate" if lag else "fast", "stop")
        if lag:
            self._ctl(data, "-l", self._folder / "log", "start")
        self._ctl(data, "promote")
        shutil.rmtree(self._data)
        self._data, self.port, self._standby = data, port, None

    def _follow(self) -> None:
        """Make a standby of the primary, which has all of it."""
        data, port = self._folder / f"standby{next(self._names)}", _free_port()
        where = ["-h", self._folder, "-p", str(self.port), "-U", "postgres"]
        copied = [self._binaries / "pg_basebackup", *where, "-D", data, "-R", "-X", "stream", "-c", "fast"]
        _run(copied, self._folder, self._account)
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"port = {port}\n")
        guard = ["sh", "-c", _GUARD, "guard", self._binaries / "pg_ctl", data, data]
        guarding: Any = subprocess.Popen(
            guard, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._folder, **self._account
        )
        self._guards.append(guarding)
        self._ctl(data, "-l", self._folder / "log", "start")
        self._standby = data, port

    def _ctl(self, data: Path, *words: str | Path) -> None:
        _run([self._binaries / "pg_ctl", "-D", data, "-w", "-t", "60", "-s", *words], self._folder, self._account)

    @contextmanager
    def kept(self) -> Generator[Cluster]:
        """Stop, at the end, what was started here."""
        try:
            yield self
        finally:
            for guard in self._guards:
                assert guard.stdin is not None
                guard.stdin.close()
                guard.wait()
