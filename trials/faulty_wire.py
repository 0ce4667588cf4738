"""A wire that fails as networks do, between a client and its PostgreSQL: messages are counted, one meets with trouble.

A proxy on the loopback, in the process that waits for the client anyway. It reads a client's messages just far enough
to count them and to know a COMMIT. It knows nothing of journals.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .forks import SECONDS, Child, Ended

LATE_SECONDS = 0.03
# "Ready for a query, and in no transaction."
_IDLE = b"Z\0\0\0\5I"


@dataclass
class WireFault:
    """What goes wrong, and at which message of the client's, or at which of its commits.

    kill before/after: the client is killed before the message is passed on, or right after. cut before/after: both
    connections break there and the client lives. reply lost: the server's answer to a COMMIT is swallowed and the
    connections break. late: the client loses its connection first, the server gets the COMMIT a little later.
    """

    how: str = "never"  # kill before, kill after, cut before, cut after, reply lost, late
    at: int = 0
    messages: int = 0
    commits: int = 0
    struck: bool = False

    def now(self, *, commit: bool) -> bool:
        """Count a message; whether it is the one."""
        self.messages += 1
        self.commits += commit
        count = self.commits if self.how in ("reply lost", "late") else self.messages
        counted = commit or self.how not in ("reply lost", "late")
        if self.struck or not counted or count != self.at:
            return False
        self.struck = True
        return True


@dataclass
class _Pair:
    """A client's connection and the server's, and what of the client's bytes is no whole message yet."""

    client: socket.socket
    server: socket.socket
    started: bool = False
    left: bytes = b""
    open: bool = True
    doom: bytes = b""


@dataclass
class Wire:
    """The proxy. `server` is the socket file of the real one; `port` is where clients come."""

    server: Path
    fault: WireFault
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=64))
    _pairs: list[_Pair] = field(default_factory=list[_Pair])
    _late: list[tuple[float, _Pair, bytes]] = field(default_factory=list[tuple[float, _Pair, bytes]])

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self.listener.getsockname()[1]

    def serve(self, child: Child, seconds: float = SECONDS) -> Ended:
        """Pass messages on until the child has said all it says."""
        limit, late = time.monotonic() + seconds, False
        with selectors.DefaultSelector() as ready:
            ready.register(self.listener, selectors.EVENT_READ, self._accept)
            ready.register(child.told, selectors.EVENT_READ, self._hear)
            while child.telling:
                for key, _ in ready.select(0.005 if self._late else 1.0):
                    key.data(ready, child)
                self._deliver_late()
                if time.monotonic() > limit and not late:
                    late = True
                    child.kill()
        return self._over(child, late=late)

    def _hear(self, _ready: selectors.BaseSelector, child: Child) -> None:
        child.hear()

    def _over(self, child: Child, *, late: bool) -> Ended:
        ended = child.ended(late=late)
        for pair in self._pairs:
            self._close(pair)
        self.listener.close()
        self._deliver_late(at_once=True)
        return ended

    def _accept(self, ready: selectors.BaseSelector, _child: Child) -> None:
        client, _ = self.listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self.server))
        pair = _Pair(client, server)
        self._pairs.append(pair)
        ready.register(client, selectors.EVENT_READ, lambda ready, child: self._from_client(ready, child, pair))
        ready.register(server, selectors.EVENT_READ, lambda ready, child: self._from_server(ready, pair))

    def _from_server(self, ready: selectors.BaseSelector, pair: _Pair) -> None:
        got = _received(pair.server)
        if got and pair.open:
            try:
                pair.client.sendall(got)
                return
            except OSError:
                pass
        self._drop(ready, pair)

    def _from_client(self, ready: selectors.BaseSelector, child: Child, pair: _Pair) -> None:
        got = _received(pair.client)
        if not got:
            self._drop(ready, pair)
            return
        pair.left += got
        out = bytearray()
        while pair.open and (length := _whole(pair)):
            message, pair.left = pair.left[:length], pair.left[length:]
            if pair.doom or self.fault.now(commit=_commits(message)):
                _send(pair.server, bytes(out))
                out.clear()
                self._meet(ready, child, pair, message)
            else:
                out += message
            pair.started = True
        if pair.open:
            _send(pair.server, bytes(out))

    def _meet(self, ready: selectors.BaseSelector, child: Child, pair: _Pair, message: bytes) -> None:
        """The message that meets with trouble; a COMMIT is whole once the client asks for its answer."""
        pair.doom += message
        if self.fault.how not in ("reply lost", "late") or message[:1] in b"SQ":
            self._trouble(ready, child, pair, pair.doom)

    def _trouble(self, ready: selectors.BaseSelector, child: Child, pair: _Pair, message: bytes) -> None:
        how = self.fault.how
        if how == "late":
            self._late.append((time.monotonic() + LATE_SECONDS, pair, message))
            ready.unregister(pair.server)
            ready.unregister(pair.client)
            pair.open = False
            pair.client.close()
            return
        if how in ("kill after", "cut after", "reply lost"):
            _send(pair.server, message)
        if how == "reply lost":
            _answered(pair.server)
        if how.startswith("kill"):
            os.kill(child.pid, signal.SIGKILL)
        self._drop(ready, pair)

    def _deliver_late(self, *, at_once: bool = False) -> None:
        """Give the server the COMMIT whose client is gone, and wait until it is done."""
        while self._late and (at_once or self._late[0][0] <= time.monotonic()):
            _, pair, message = self._late.pop(0)
            _send(pair.server, message)
            _answered(pair.server)
            pair.server.close()

    def _drop(self, ready: selectors.BaseSelector, pair: _Pair) -> None:
        for end in (pair.client, pair.server):
            if pair.open:
                ready.unregister(end)
        self._close(pair)

    def _close(self, pair: _Pair) -> None:
        if pair.open:
            pair.open = False
            pair.client.close()
            pair.server.close()


def _whole(pair: _Pair) -> int:
    """How long the next message is, 0 while it is not all there. The first one has no letter before its length."""
    begin = 1 if pair.started else 0
    if len(pair.left) < begin + 4:
        return 0
    (length,) = struct.unpack_from("!I", pair.left, begin)
    return begin + length if len(pair.left) >= begin + length else 0


def _commits(message: bytes) -> bool:
    """Whether a message is a COMMIT, said by itself or along with others."""
    said = message[5:]
    return (message[:1] == b"Q" and said.startswith(b"COMMIT")) or (
        message[:1] == b"P" and said.partition(b"\0")[2].startswith(b"COMMIT")
    )


def _answered(server: socket.socket) -> None:
    """Swallow what the server answers, until it is out of the transaction."""
    server.settimeout(SECONDS)
    heard = b""
    while _IDLE not in heard and (got := _received(server)):
        heard = heard[-len(_IDLE) :] + got


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(262_144)
    except OSError:
        return b""


def _send(end: socket.socket, data: bytes) -> None:
    if data:
        try:
            end.sendall(data)
        except OSError:
            return


def url(base: str, port: int, **settings: Any) -> str:
    """The address of a database through the wire; `base` is its name and `settings` what else the address says."""
    plain = {"sslmode": "disable", "gssencmode": "disable", **settings}
    return f"postgresql://postgres@127.0.0.1:{port}/{base}?" + "&".join(f"{k}={v}" for k, v in plain.items())
