"""A server on 127.0.0.1 that answers from a script, remembers every request and misbehaves on demand.

Here are HTTP, the script and the faults; no provider's format. A format is one file with one subclass of
`LoopbackServer`, which says at most four things:

    reply(request, step) -> Reply      a step's items as this provider sends them: `Reply.json`, or `Reply.stream`
    error(status, message) -> dict     the body of this provider's errors
    refuse(request) -> (status, message) | None     what the real one would not accept; asked before the script
    base_path = "/v1"                  what `base_url` adds to the address

A script is what `ScriptedModel` takes: a list of steps (items in the Responses format, texts, `ModelStep`s), or one
function of the `Request`, sync or async, that returns one. A `Fault` may stand for a step or be returned. Of a
`ModelStep`, `error` is an error response if it has a `status_code`, else a dropped line; `break_after` cuts the stream.

    async with ResponsesServer([Fault(status=429, headers={"retry-after": "0"}), "Done."]) as server:
        client = AsyncOpenAI(api_key="k", base_url=server.base_url, max_retries=0)
        ...
    server.requests[0].json["model"]

`with` in place of `async with` runs the server in a thread of its own, for code that blocks the event loop.
"""

from __future__ import annotations

import abc
import asyncio
import inspect
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, ClassVar, Self

from ...models.script import ModelStep, read_step

Responder = Callable[["Request"], Any]


@dataclass(frozen=True)
class Request:
    """One request as it came; names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @cached_property
    def json(self) -> Any:
        """The body as JSON; None where there is none."""
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True)
class Reply:
    """One answer: a body, or the parts of one that are sent one by one."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    parts: tuple[bytes, ...] | None = None

    @classmethod
    def json(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """A JSON body."""
        return cls(status, {"content-type": "application/json", **(headers or {})}, _written(value))

    @classmethod
    def stream(cls, events: Iterable[Any], headers: Mapping[str, str] | None = None, *, named: bool = False) -> Reply:
        """Server-sent events: mappings as JSON, texts (such as `[DONE]`) as they are; `named` adds `event: <type>`."""
        parts = tuple(_event(event, named) for event in events)
        return cls(200, {"content-type": "text/event-stream; charset=utf-8", **(headers or {})}, parts=parts)


@dataclass(frozen=True)
class Fault:
    """One answer that goes wrong: an error `status`, a wrong `body`, or `reply` (any step) told badly.

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


class LoopbackServer(abc.ABC):
    """Subclass it for a wire format; see the top of the file. It is a context manager, sync and async."""

    base_path: ClassVar[str] = ""

    def __init__(self, script: Iterable[Any] | Responder = ()) -> None:
        self.requests: list[Request] = []
        self.answered = 0
        self._respond = script if callable(script) else None
        self._steps: deque[Any] = deque(() if callable(script) else script)
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[Any]] = set()
        self._thread: tuple[threading.Thread, asyncio.AbstractEventLoop] | None = None

    @abc.abstractmethod
    def reply(self, request: Request, step: ModelStep) -> Reply:
        """A step's items as this provider sends them."""

    @abc.abstractmethod
    def error(self, status: int, message: str) -> Any:
        """The body of this provider's errors."""

    def refuse(self, request: Request) -> tuple[int, str] | None:
        """Status and message of what the real one would not accept. The default accepts everything."""
        return None

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        if self._server is None:
            raise RuntimeError("the server is not running: enter it with `async with` or `with`")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def base_url(self) -> str:
        """The address that the provider's client is given."""
        return self.url + self.base_path

    async def start(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def close(self) -> None:
        """Stop listening and drop every line."""
        if self._server is not None:
            self._server.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="loopback", daemon=True)
        thread.start()
        self._thread = thread, loop
        asyncio.run_coroutine_threadsafe(self.start(), loop).result()
        return self

    def __exit__(self, *_raised: object) -> None:
        assert self._thread is not None
        thread, loop = self._thread
        asyncio.run_coroutine_threadsafe(self.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                reply, fault = await self._answer(request)
                if not await _send(writer, reply, fault):
                    if fault.stall:
                        await reader.read()  # until the client hangs up
                    writer.transport.abort()
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the test is over
        finally:
            self._lines.discard(line)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, request: Request) -> tuple[Reply, Fault]:
        refused = self.refuse(request)
        if refused is not None:
            return self._error(*refused), Fault()
        try:
            fault, step = await self._next(request)
        except Exception as error:  # a script's mistake must reach the test, and this is the only way there
            return self._error(400, f"the script: {type(error).__name__}: {error}"), Fault()
        if fault.status is not None:
            return self._error(fault.status, fault.message, fault.headers), fault
        if fault.body is not None:
            return Reply(200, {"content-type": "application/json", **fault.headers}, fault.body), fault
        if step.delay is not None:
            await (step.delay() if callable(step.delay) else asyncio.sleep(step.delay))
        return self.reply(request, step), fault

    def _error(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> Reply:
        return Reply.json(self.error(status, message), status, headers)

    async def _next(self, request: Request) -> tuple[Fault, ModelStep]:
        if self._respond is None and not self._steps:
            raise IndexError(f"it has {self.answered} steps and was asked for one more")
        self.answered += 1
        given: Any = self._steps.popleft() if self._respond is None else await _called(self._respond, request)
        fault = given if isinstance(given, Fault) else Fault(given)
        step = read_step(fault.reply, f"step {self.answered}")
        if step.responder is not None:
            answer = await _called(step.responder, request)
            fault = answer if isinstance(answer, Fault) else Fault(answer)
            step = read_step(fault.reply, f"step {self.answered}")
        if step.error is not None and step.break_after is None:
            status = getattr(step.error, "status_code", None)
            fault = Fault(status=status, message=str(step.error)) if status else Fault(step, events=0)
        elif step.break_after is not None:
            fault = Fault(step, events=step.break_after)
        return fault, step


async def _called(function: Callable[[Any], Any], request: Request) -> Any:
    answer: Any = function(request)
    return await answer if inspect.isawaitable(answer) else answer


def _written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _event(event: Any, named: bool) -> bytes:
    name = f"event: {event['type']}\n".encode() if named and not isinstance(event, str) else b""
    return name + b"data: " + (event.encode() if isinstance(event, str) else _written(event)) + b"\n\n"


# ------------------------------------------------------------------------------------------------------ HTTP/1.1


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """The next request on a line, None where the client hung up."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    path, _, query = target.partition("?")
    return Request(method, path, query, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def _send(writer: asyncio.StreamWriter, reply: Reply, fault: Fault) -> bool:
    """Send a reply as its fault says; False where the line ends here."""
    parts, whole = _cut(reply, fault)
    if fault.events == 0 and not fault.half and not fault.polite and not fault.stall:
        return False  # not even a head
    length = {"content-length": str(len(reply.body))} if reply.parts is None else {"transfer-encoding": "chunked"}
    head = f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in {**reply.headers, **length}.items())
    writer.write(head.encode("latin-1") + b"\r\n")
    write = _Writer(writer, chunked=reply.parts is not None, pieces=fault.pieces)
    for part in parts:
        await write(part)
    if whole:
        await write.end()
    await writer.drain()
    return whole


def _cut(reply: Reply, fault: Fault) -> tuple[tuple[bytes, ...], bool]:
    """What is sent of a reply, and whether its end is."""
    parts = (reply.body,) if reply.parts is None else reply.parts
    if fault.events is None and not fault.half and not fault.stall:
        return parts, True
    sent = len(parts) if fault.events is None else fault.events
    half = (parts[sent][: len(parts[sent]) // 2],) if fault.half and sent < len(parts) else ()
    return (*parts[:sent], *half), fault.polite and reply.parts is not None


class _Writer:
    """The body of one answer on the line, in the pieces that were asked for."""

    def __init__(self, writer: asyncio.StreamWriter, *, chunked: bool, pieces: int | None) -> None:
        self._writer, self._chunked, self._pieces = writer, chunked, pieces

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
