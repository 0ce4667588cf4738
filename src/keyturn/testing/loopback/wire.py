"""Read requests and send replies on one HTTP/1.1 connection of a loopback server.

Here are bytes. What is said, when, and what may go wrong on purpose is asked for by `server.py`; a `Fault` only says
which of a reply's bytes reach the line.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any

from ...core.immutable import immutable

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@immutable
@dataclass(frozen=True)
class HttpRequest:
    """Holds one request as it came; names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @cached_property
    def json(self) -> Any:
        """Parse the body as JSON; None where there is none."""
        return json.loads(self.body) if self.body else None


@immutable
@dataclass(frozen=True)
class HttpReply:
    """Holds one answer: a body, or the parts of one that are sent one by one."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    parts: tuple[bytes, ...] | None = None

    @classmethod
    def json(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpReply:
        """Make a JSON body."""
        return cls(status, {"content-type": "application/json", **(headers or {})}, _written(value))

    @classmethod
    def stream(
        cls, events: Iterable[Any], headers: Mapping[str, str] | None = None, *, named: bool = False
    ) -> HttpReply:
        """Make server-sent events.

        Mappings become JSON, texts (such as `[DONE]`) stay as they are; `named` adds `event: <type>`.
        """
        parts = tuple(_event(event, named) for event in events)
        return cls(200, {"content-type": "text/event-stream; charset=utf-8", **(headers or {})}, parts=parts)


@immutable
@dataclass(frozen=True)
class Fault:
    """Describes one answer that goes wrong: an error `status`, a wrong `body`, or `reply` (any step) sent badly.

    Of a stream, `events` sends only so many, with `half` also half of the next one; then the line is dropped, or
    ended properly if `polite`, or kept open and silent if `stall`. `pieces` sends so many bytes at a time.
    """

    reply: Any = "never told"
    status: int | None = None
    message: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    events: int | None = None
    half: bool = False
    polite: bool = False
    stall: bool = False
    pieces: int | None = None


def _written(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _event(event: Any, named: bool) -> bytes:
    name = f"event: {event['type']}\n".encode() if named and not isinstance(event, str) else b""
    return name + b"data: " + (event.encode() if isinstance(event, str) else _written(event)) + b"\n\n"


async def receive(reader: asyncio.StreamReader) -> HttpRequest | None:
    """Read the next request on a connection, None where the client hung up."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    path, _, query = target.partition("?")
    return HttpRequest(method, path, query, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def send(writer: asyncio.StreamWriter, reply: HttpReply, fault: Fault) -> bool:
    """Send a reply as its fault says; return False where the connection ends here."""
    parts, whole = _cut(reply, fault)
    if fault.events == 0 and not fault.half and not fault.polite and not fault.stall:
        return False  # not even a head
    length = {"content-length": str(len(reply.body))} if reply.parts is None else {"transfer-encoding": "chunked"}
    head = f"HTTP/1.1 {reply.status} {_PHRASES.get(reply.status, 'Unassigned')}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in {**reply.headers, **length}.items())
    writer.write(head.encode("latin-1") + b"\r\n")
    write = _Writer(writer, chunked=reply.parts is not None, pieces=fault.pieces)
    for part in parts:
        await write(part)
    if whole:
        await write.end()
    await writer.drain()
    return whole


def _cut(reply: HttpReply, fault: Fault) -> tuple[tuple[bytes, ...], bool]:
    """Return what is sent of a reply, and whether its end is."""
    parts = (reply.body,) if reply.parts is None else reply.parts
    if fault.events is None and not fault.half and not fault.stall:
        return parts, True
    sent = fault.events if fault.events is not None else len(parts) - 1 if fault.half else len(parts)
    half = (parts[sent][: len(parts[sent]) // 2],) if fault.half and sent < len(parts) else ()
    return (*parts[:sent], *half), fault.polite and reply.parts is not None


class _Writer:
    """Writes the body of one answer, in the pieces that were asked for."""

    def __init__(self, writer: asyncio.StreamWriter, *, chunked: bool, pieces: int | None) -> None:
        self._writer = writer
        self._chunked = chunked
        self._pieces = pieces

    async def __call__(self, part: bytes) -> None:
        size = self._pieces or max(len(part), 1)
        for start in range(0, len(part), size):
            piece: bytes = part[start : start + size]
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)
            await self._writer.drain()
            await asyncio.sleep(0)  # so that the reader sees this piece before the next one is sent

    async def end(self) -> None:
        if self._chunked:
            self._writer.write(b"0\r\n\r\n")
