"""Post a body to an address that somebody gave: to the address that was checked, no further, and not for long.

It speaks HTTP/1.1 itself, since what matters is what it does not do: no redirect, no proxy, no second look-up between
check and connection, no more than a few bytes read, no time beyond its own.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..support.daemon_threads import DaemonThreads
from .addresses import Target, check_addresses, target_of
from .base import ChannelBusy, ChannelRefused

Resolver = Callable[[str, int], Awaitable[list[str]]]

_HEAD = 16_384  # the most bytes of an answer that are read
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |$)")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_PASSING = frozenset({408, 421, 425, 429})
_GONE = 410
_INTERIM = 4
_LOOKUPS = 8  # how many names one channel looks up at the same time


class NotTaken(Exception):
    """Raised where a receiver failed in a way that may pass.

    >>> NotTaken("503").args
    ('503',)
    """


def own_resolver() -> Resolver:
    """Return what resolves names as this machine does, in a few threads of its own.

    Whoever gives an address chooses how long its name takes; the threads of the pages are not kept waiting by it.
    """
    threads = DaemonThreads(_LOOKUPS)

    async def resolve(host: str, port: int) -> list[str]:
        found = await threads.run(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    return resolve


@cache
def _trusted() -> ssl.SSLContext:
    """Read the certificates of this machine once for all channels."""
    return ssl.create_default_context()


@dataclass(frozen=True)
class Poster:
    """Posts to addresses on the public internet; with `loopback` to this machine as well, over plain http too.

    `allow` are private networks, such as "10.0.0.0/8", to whose addresses it posts as well.
    """

    loopback: bool = False
    allow: tuple[str, ...] = ()
    seconds: float = 10.0
    resolver: Resolver = field(default_factory=own_resolver)
    tls: ssl.SSLContext = field(default_factory=_trusted)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Post a body; return where it was taken, and raise where it was not, for good or for now."""
        status, fields, _ = await self._posted(url, body, headers, whole=False)
        _judge(status, fields)

    async def exchange(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Post a body, and return the status and the body of the answer, which is a short one."""
        status, _, answer = await self._posted(url, body, headers, whole=True)
        return status, answer

    async def _posted(
        self, url: str, body: bytes, headers: Mapping[str, str], *, whole: bool
    ) -> tuple[int, Mapping[str, str], bytes]:
        target = target_of(url, loopback=self.loopback)
        head = _head(target, body, headers)
        async with asyncio.timeout(self.seconds):
            found = await self.resolver(target.host, target.port)
            if not found:
                raise NotTaken("the host has no address")
            check_addresses(target, found, loopback=self.loopback, allow=self.allow)
            return await self._exchange(target, found, head + body, whole=whole)

    async def _exchange(
        self, target: Target, found: list[str], sent: bytes, *, whole: bool
    ) -> tuple[int, Mapping[str, str], bytes]:
        reader, writer = await self._connect(target, found)
        try:
            writer.write(sent)
            await writer.drain()
            for _ in range(_INTERIM):
                status, fields = await _answer(reader)
                if status >= 200:
                    return status, fields, await _body(reader, fields) if whole else b""
            raise NotTaken("the receiver went on without an answer")
        finally:
            writer.transport.abort()  # what it goes on to say is not read

    async def _connect(self, target: Target, found: list[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first address that answers, by its number, under the host's name."""
        failed: OSError | None = None
        secured: dict[str, Any] = {"ssl": self.tls, "server_hostname": target.host.rstrip(".")} if target.secure else {}
        for address in found:
            try:
                return await asyncio.open_connection(address, target.port, limit=_HEAD, **secured)
            except OSError as error:  # a certificate that is not the host's is one, too
                failed = error
        assert failed is not None
        raise failed


def _head(target: Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    fields = {"Host": target.authority, "Connection": "close", "User-Agent": "keyturn", "Accept": "*/*", **headers}
    fields["Content-Length"] = str(len(body))
    for name, value in fields.items():
        if not _HEADER.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise ChannelRefused(f"the header {name!r} holds what no header may hold")
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"


async def _answer(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str]]:
    """Read the head of an answer, of a bounded size."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise NotTaken("the receiver's answer has too large a head") from None
    except asyncio.IncompleteReadError:
        raise NotTaken("the receiver hung up without an answer") from None
    found = _STATUS.match(head)
    if found is None:
        raise NotTaken("the receiver does not speak HTTP")
    lines = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return int(found[1]), {name.strip().lower(): value.strip() for name, _, value in lines}


async def _body(reader: asyncio.StreamReader, fields: Mapping[str, str]) -> bytes:
    """Read the body of an answer: so many bytes, or in chunks, or all until the receiver hangs up."""
    try:
        if "chunked" in fields.get("transfer-encoding", "").lower():
            return await _chunks(reader)
        if "content-length" in fields:
            return await reader.readexactly(_bounded(int(fields["content-length"])))
        return await _rest(reader)
    except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise NotTaken("the receiver's answer cannot be read") from None


async def _rest(reader: asyncio.StreamReader) -> bytes:
    read = b""
    while part := await reader.read(_HEAD):
        read += part
        _bounded(len(read))
    return read


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    read = b""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        read += (await reader.readexactly(_bounded(size + len(read)) - len(read) + 2))[:-2]
    return read


def _bounded(size: int) -> int:
    """Return how many bytes are read, or refuse more than a short answer has."""
    if not 0 <= size <= _HEAD:
        raise ValueError(size)
    return size


def _judge(status: int, fields: Mapping[str, str]) -> None:
    """Return where an answer takes the message; raise what says whether it may be tried again."""
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise ChannelRefused(f"the receiver sends elsewhere ({status}), which is not followed: give its new address")
    if status >= 500 or status in _PASSING:
        with suppress(KeyError, ValueError):
            seconds = float(fields["retry-after"])
            if 0 < seconds < float("inf"):
                raise ChannelBusy(f"the receiver is busy ({status})", seconds=seconds)
        raise NotTaken(f"the receiver failed ({status})")
    gone = "; it is gone" if status == _GONE else ""
    raise ChannelRefused(f"the receiver refused the message ({status}){gone}")
