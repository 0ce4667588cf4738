"""What a gate keeps between its starts: the accepted definition of each tool, and requests that a call may join.

One file for each MCP server, below the user's state directory; gates of several clients share it. Without a path it is
kept in memory alone. What is here lets nothing run: a request is claimed at the Keyturn server, once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ..core.errors import UserError
from ..support.keys import make_directory, state_directory
from ..support.whole_files import replaced
from .task_records import TaskRecords

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None


class OpenAsk(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names a request that no call has used, and until when a call may join it, in seconds since 1970.

    `waits` are the gates in which a call waits for it, each until a time at which it says so again or has ended.
    """

    id: str
    until: float
    waits: dict[str, float] = {}

    def is_waited_for(self, now: float, but: str) -> bool:
        """Return whether a call of another gate than this one waits for it.

        >>> OpenAsk("5e1f", 100.0, {"a": 60.0}).is_waited_for(50.0, but="b")
        True
        """
        return any(until > now for gate, until in self.waits.items() if gate != but)


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds the content of the file."""

    pins: dict[str, str] | None = None
    asks: dict[str, OpenAsk] = {}


def records_file(keyturn: str, server: str, account: str = "") -> Path:
    """Return where a gate keeps its records of one MCP server, asked about at one Keyturn server by one account."""
    name = hashlib.sha256("\n".join((keyturn, server, account)).encode()).hexdigest()[:32]
    return state_directory() / "gate" / f"{name}.json"


class GateRecords:
    """Reads and writes the records of one MCP server."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept = _Kept()
        self.tasks = TaskRecords(None if path is None else path.with_suffix(".tasks"))
        self.look()

    @property
    def pins(self) -> dict[str, str] | None:
        """Return the accepted definitions by tool; None where the server was never seen."""
        return self._kept.pins

    @property
    def asks(self) -> dict[str, OpenAsk]:
        """Return the requests that calls may join, by client, tool and arguments."""
        return self._kept.asks

    def look(self) -> None:
        """Read anew what another gate of the same server may have written."""
        self._kept = self._read()

    def pin(self, definitions: dict[str, str]) -> None:
        """Keep definitions as accepted."""
        self._change(lambda kept: msgspec.structs.replace(kept, pins={**(kept.pins or {}), **definitions}))

    def keep(self, name: str, ask: OpenAsk) -> None:
        """Keep a request that the same call may join, beside what other gates say of it."""
        self._change(lambda kept: msgspec.structs.replace(kept, asks=_beside(kept.asks, name, ask)))

    def leave(self, name: str, gate: str) -> None:
        """Note that no call of a gate waits for a request."""
        self._change(lambda kept: msgspec.structs.replace(kept, asks=_left(kept.asks, name, gate)))

    def drop(self, name: str, id: str) -> None:
        """Let no call join a request any more."""
        found = self._kept.asks.get(name)
        if found is not None and found.id == id:
            self._change(lambda kept: msgspec.structs.replace(kept, asks=_without(kept.asks, name)))

    def _change(self, change: Callable[[_Kept], _Kept]) -> None:
        with self._locked():
            self._kept = change(self._read())
            if self._path is not None:
                with replaced(self._path) as stream:
                    stream.write(msgspec.json.format(msgspec.json.encode(self._kept), indent=1))

    @contextmanager
    def _locked(self) -> Generator[None]:
        if self._path is None:
            yield
            return
        make_directory(self._path.parent)
        with self._path.with_suffix(".lock").open("a") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> _Kept:
        if self._path is None:
            return self._kept
        with suppress(FileNotFoundError):
            try:
                return msgspec.json.decode(self._path.read_bytes(), type=_Kept)
            except msgspec.DecodeError as error:
                raise UserError(
                    f"{str(self._path)!r} is damaged ({error}): restore it, or delete it to accept the tools of this "
                    "server as they are now"
                ) from None
        return _Kept()


def _beside(asks: dict[str, OpenAsk], name: str, ask: OpenAsk) -> dict[str, OpenAsk]:
    before = asks.get(name)
    if before is not None and before.id == ask.id:
        ask = OpenAsk(ask.id, max(before.until, ask.until), {**before.waits, **ask.waits})
    return {**asks, name: ask}


def _left(asks: dict[str, OpenAsk], name: str, gate: str) -> dict[str, OpenAsk]:
    found = asks.get(name)
    if found is None:
        return asks
    waits = {each: until for each, until in found.waits.items() if each != gate}
    return {**asks, name: msgspec.structs.replace(found, waits=waits)}


def _without(asks: dict[str, OpenAsk], name: str) -> dict[str, OpenAsk]:
    return {each: ask for each, ask in asks.items() if each != name}
