"""Run an MCP server as a child process: messages as lines over stdin and stdout, its stderr escaped onto ours.

It gets a small environment, never ours: keys lie there. Nor does it get our terminal. A line that is no message is
skipped, and one that does not end closes the connection. The process is the head of a group, which ends as a whole.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from ..render.escape import escape
from .bounds import ASIDE_BYTES, ASIDE_LINE, MESSAGE_BYTES, NOISE_BYTES, STOP_SECONDS
from .params import ServerCommand

_CHUNK = 1 << 16
_GROUPS: set[int] = set()


class _Lines:
    """Splits bytes into lines that hold messages; `over` once a line, or the noise between lines, is too long."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = self._noise = 0

    def messages(self, chunk: bytes) -> Iterator[SessionMessage]:
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            line = b"".join([*self._parts, end])
            self._parts, self._held = [], 0
            message = _message(line)
            self._noise = 0 if message is not None else self._noise + len(line) + 1
            if message is not None:
                yield message
        self._parts.append(rest)
        self._held += len(rest)

    @property
    def over(self) -> bool:
        return self._held > MESSAGE_BYTES or self._noise > NOISE_BYTES


@contextlib.asynccontextmanager
async def pipes(command: ServerCommand, name: str) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a server and yield its two message streams; its stderr is shown under `name`."""
    process = await asyncio.create_subprocess_exec(
        command.command,
        *command.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=get_default_environment() | (command.env or {}),
        cwd=command.cwd,
        start_new_session=True,
    )
    assert process.stderr is not None
    _GROUPS.add(process.pid)
    asides = asyncio.create_task(pass_on(process.stderr, name))
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(_read(process, received))
    writing = asyncio.create_task(_write(process, outgoing, received))
    tasks = [reading, writing, asides]
    try:
        yield read, write
    finally:
        for stream in (read, write, received, outgoing):
            stream.close()
        await asyncio.shield(_stop(process, asides))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(process: asyncio.subprocess.Process, received: MemoryObjectSendStream[Any]) -> None:
    assert process.stdout is not None
    lines = _Lines()
    try:
        while not lines.over and (chunk := await process.stdout.read(_CHUNK)):
            for message in lines.messages(chunk):
                await received.send(message)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        return
    finally:
        received.close()


def _message(line: bytes) -> SessionMessage | None:
    if len(line) > MESSAGE_BYTES:
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _write(process: asyncio.subprocess.Process, outgoing: Any, received: MemoryObjectSendStream[Any]) -> None:
    assert process.stdin is not None
    try:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()
    except (anyio.ClosedResourceError, OSError):
        received.close()  # nobody reads: whoever waits for an answer learns that none will come


async def _stop(process: asyncio.subprocess.Process, asides: asyncio.Task[None]) -> None:
    """End the whole process group: close its stdin, then SIGTERM, then SIGKILL."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    for how in (None, signal.SIGTERM, signal.SIGKILL):
        if how is not None:
            _signal(process.pid, how)
        if await _ended(process):
            break
    _signal(process.pid, signal.SIGKILL)  # what it started and left behind
    _GROUPS.discard(process.pid)
    await asyncio.wait([asides], timeout=STOP_SECONDS)  # its last words, unless somebody else holds them back
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _ended(process: asyncio.subprocess.Process) -> bool:
    """Return whether the process ends in time.

    This does not use its wait(), which also waits for pipes that a grandchild may hold open.
    """
    until = asyncio.get_running_loop().time() + STOP_SECONDS
    while process.returncode is None and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.005)
    return process.returncode is not None


def _signal(group: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, how)


@atexit.register
def _end_all() -> None:
    for group in list(_GROUPS):
        _signal(group, signal.SIGKILL)


async def pass_on(words: asyncio.StreamReader, name: str) -> None:
    """Copy a server's stderr to ours, escaped and marked; beyond the limit, read on and show no more.

    A person may be deciding at that very terminal, so the server never holds it and cannot read what is typed there.
    Reading never stops, so that a server does not block on a full pipe.
    """
    line, left = b"", ASIDE_BYTES
    while chunk := await words.read(ASIDE_LINE):
        if left < 0:
            continue
        left -= len(chunk)
        *ended, line = (line + chunk).split(b"\n")
        if len(line) > ASIDE_LINE:
            ended, line = [*ended, line], b""
        for each in ended:
            _show(name, each)
        if left < 0:
            _show(name, b"... (too much to be shown)")
            line = b""
    if line:
        _show(name, line)


def _show(name: str, line: bytes) -> None:
    text = escape(line.decode("utf-8", "backslashreplace").rstrip("\r"), keep="\n\t")
    with contextlib.suppress(OSError, ValueError, AttributeError):  # ours is closed, or there is none
        print(f"[{escape(name, keep='')}] {text}", file=sys.__stderr__, flush=True)
