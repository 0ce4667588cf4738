"""Serve over HTTP with uvicorn: on which address, how long anybody may take, and how it ends.

A connection that says nothing, or says it a byte at a time, or takes no answer, is ended; open streams are told to end
before uvicorn waits for them, or it would wait for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import signal
import socket
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..core.errors import UserError
from .settings import LOOPBACK

_HEADERS_WITHIN = 10.0
_LARGEST_HEAD = 32_768
_TAKEN_WITHIN = 20.0  # seconds in which a client takes some of what it is sent
_LEAST_TAKEN = 16_384  # bytes
_LAST_PORT = 65_535
_IN_THE_WAY = {
    errno.EADDRINUSE: "is in use: stop the program that listens there, or choose another port",
    errno.EACCES: "requires more rights, as ports below 1024 do: choose another port",
    errno.EADDRNOTAVAIL: "cannot be used: this machine does not have the address; choose one that it has",
}


@dataclass(frozen=True, kw_only=True)
class ListeningAddress:
    """Says where a server listens, and by which URL people reach it.

    >>> ListeningAddress(port=8321).url
    'http://localhost:8321'
    """

    host: str = "127.0.0.1"
    port: int = 8321
    public_url: str = ""
    hosts: tuple[str, ...] = ()
    secure: bool = False
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _LAST_PORT:
            raise UserError(f"the port must be from 0 (any free port) to {_LAST_PORT}, not {self.port}")
        if (self.certificate is None) != (self.key is None):
            raise UserError("a certificate goes with its key: name both, --tls-cert and --tls-key")
        if self.public_url and (urlsplit(self.public_url).scheme not in ("http", "https") or not self._named):
            raise UserError(f"the URL by which people come is like https://keyturn.example, not {self.public_url!r}")

    @property
    def _named(self) -> str:
        return urlsplit(self.public_url).hostname or ""

    @property
    def encrypted(self) -> bool:
        """Return whether people reach it by https."""
        return self.secure or self.certificate is not None or self.public_url.startswith("https://")

    @property
    def proxied(self) -> bool:
        """Return whether people reach it by https and it speaks plain http: a proxy stands in between."""
        return self.encrypted and self.certificate is None

    @property
    def public(self) -> bool:
        """Return whether others than this machine can reach it."""
        if self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return True

    @property
    def url(self) -> str:
        """Return the URL by which people come."""
        if self.public_url:
            return self.public_url.rstrip("/")
        scheme = "https" if self.encrypted else "http"
        host = next(iter(self.hosts), self.host) if self.public else "localhost"
        return f"{scheme}://{host}:{self.port}"

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """Return the names by which it may be reached."""
        own = () if self.host in ("0.0.0.0", "::") else (f"[{self.host}]" if ":" in self.host else self.host,)
        named = (self._named,) if self.public_url else ()
        return tuple(dict.fromkeys((*LOOPBACK, *own, *named, *self.hosts)))

    def bound(self) -> socket.socket:
        """Return a socket that listens there, or raise `UserError` with what stands in the way."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # asyncio sets TCP_NODELAY where the protocol is named: without it each response waits 40 ms for an ACK.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((self.host.strip("[]"), self.port))
        except OSError as error:
            made.close()
            why = _IN_THE_WAY.get(error.errno or 0, f"cannot be used: {error.strerror or error}")
            raise UserError(f"port {self.port} of {self.host} {why}") from None
        made.set_inheritable(True)
        return made


class PatientProtocol(H11Protocol):
    """Ends a connection whose request does not come within some seconds, or whose answer is not read.

    An answer is kept in memory until it is read, and a connection that is being closed waits for that as well.
    """

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _left = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # each byte that waits is noticed
        self._late = self.loop.call_later(_HEADERS_WITHIN, self._too_late)

    def data_received(self, data: bytes) -> None:
        """Take what came, and go on to wait where it is no whole request yet."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            if self._late is None:
                self._late = self.loop.call_later(_HEADERS_WITHIN, self._too_late)
        else:
            self._stop_waiting()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on: the client has read all of it."""
        self._stop_watching()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._stop_watching()
        self._left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(_TAKEN_WITHIN, self._look)

    def _look(self) -> None:
        if self._left - self.transport.get_write_buffer_size() < _LEAST_TAKEN:
            self.transport.abort()
        else:
            self._watch()

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _too_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Served(Protocol):
    """Serves over ASGI, and ends what would keep the server from ending."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def end(self) -> None:
        """End streams and what is waited for."""
        ...


def _print_ending() -> None:
    print("shutting down; press Ctrl-C again to stop at once", file=sys.stderr)


class Running(uvicorn.Server):
    """Serves until it is told to stop: the first signal ends streams and lets answers out, a second ends at once."""

    def __init__(
        self, served: Served, address: ListeningAddress, *, grace: float, told: Callable[[], None] = _print_ending
    ) -> None:
        config = uvicorn.Config(
            served,
            http=PatientProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=max(1, round(grace)),
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            ssl_certfile=address.certificate,
            ssl_keyfile=None if address.key is None else str(address.key),
        )
        super().__init__(config)
        self._served, self._told = served, told

    def stop(self) -> None:
        """End the server; said again, at once."""
        if self.should_exit:
            self.force_exit = True
            return
        self._told()
        self._served.end()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take the signals that end a process, so that it ends well."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
