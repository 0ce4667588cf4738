"""Run one command under its supervisor, seen from here: start it, read it, wait for it, end all that it started.

What the keeper does is in `supervisor.py`. Here nothing is decided but when the time is over, and nothing is left
open, whoever cancels whatever at whichever moment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..base import OutcomeUnknown, ToolProblem
from .output import Kept
from .supervisor import end_below

T = TypeVar("T")
_KEEPER = str(Path(__file__).with_name("supervisor.py"))
_GRACE = 1.0  # from SIGTERM to SIGKILL
_NUDGE = 0.1
_KEEPER_ENDS = 10.0  # the keeper's own time for ending everything, and some more


class Launch(NamedTuple):
    """Says what a supervisor starts: a command line, its environment, and the open files that it gets."""

    line: list[str]
    env: dict[str, str]
    files: tuple[int, ...] = ()


class Ended:
    """Says how a command ended: its exit code, and whether it was stopped by the timeout.

    >>> Ended(b"started 7\\nended -9 0 0\\n", timed_out=False).exit_code
    137
    """

    def __init__(self, told: bytes, timed_out: bool) -> None:
        words = told.decode("ascii", "replace").split()
        if len(words) != 6 or words[2] != "ended":
            raise OutcomeUnknown("the process that watched over the command is gone: what it started may still act")
        status, self.found, self.left = (int(word) for word in words[3:])
        self.exit_code = status if status >= 0 else 128 - status  # as shells say it of a signal
        self.timed_out = timed_out and self.found > 0  # else it ended by itself just then
        if self.left:
            raise OutcomeUnknown(f"{self.left} of its processes could not be ended and may still act")


class _Stream(asyncio.Protocol):
    """Reads one pipe into what is kept of it."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._kept.add(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._kept.add(b"", final=True)
        self.ended.set_result(None)

    @classmethod
    async def open(cls, kept: Kept) -> tuple[_Stream, asyncio.BaseTransport, int]:
        """Open a pipe; return the stream, what closes it, and the end that is written to."""
        read, write = os.pipe()
        file = os.fdopen(read, "rb", 0)
        try:
            transport, stream = await asyncio.get_running_loop().connect_read_pipe(lambda: cls(kept), file)
        except BaseException:
            file.close()
            os.close(write)
            raise
        return stream, transport, write


class Keeper:
    """Controls the supervisor of one command; see `supervisor.py`."""

    def __init__(self) -> None:
        self._channel, self._theirs = socket.socketpair()
        self._channel.setblocking(False)
        self._streams: list[_Stream] = []
        self._opened: list[asyncio.BaseTransport] = []

    async def run(self, launch: Launch, cwd: str, kept: list[Kept], seconds: float) -> Ended:
        """Run a command to its end, or end it on timeout or cancellation."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told = asyncio.ensure_future(_all_of(self._channel, started))
        timed_out = False
        process: asyncio.subprocess.Process | None = None
        try:
            process = await self._start(launch, cwd, kept)
            # The command's time begins when it does, however long its keeper took.
            await asyncio.wait({started}, timeout=_KEEPER_ENDS)
            done, _ = await asyncio.wait({told}, timeout=seconds)
            timed_out = not done
        finally:
            await _undisturbed(self._close(told, process))
        return Ended(told.result(), timed_out)

    async def _start(self, launch: Launch, cwd: str, kept: list[Kept]) -> asyncio.subprocess.Process:
        ends: list[int] = []
        try:
            for each in kept:
                stream, transport, end = await _Stream.open(each)
                self._streams.append(stream)
                self._opened.append(transport)
                ends.append(end)
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _KEEPER, str(self._theirs.fileno()), str(_GRACE), *launch.line),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=ends[0],
                stderr=ends[1],
                cwd=cwd,
                env=launch.env,
                pass_fds=(self._theirs.fileno(), *launch.files),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolProblem(f"The command could not be started ({type(error).__name__}).") from error
        finally:
            for end in ends:
                os.close(end)
            self._theirs.close()

    async def _close(self, told: asyncio.Future[bytes], process: asyncio.subprocess.Process | None) -> None:
        """Have everything ended by closing the channel, which also happens if this process is killed."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        await _last_word(told, process)
        if process is not None:
            if not told.done():
                await asyncio.to_thread(end_below, process.pid, _KEEPER_ENDS)
            await _gone(process)
        if not told.done():
            told.cancel()
            await asyncio.wait({told})
        # What it wrote is in the pipes by now; who may still hold them open is not waited for.
        if self._streams:
            await asyncio.wait([stream.ended for stream in self._streams], timeout=_GRACE)
        for transport in self._opened:
            transport.close()
        self._channel.close()


async def _last_word(told: asyncio.Future[bytes], process: asyncio.subprocess.Process | None) -> None:
    """Wait for the supervisor to end everything, and send SIGCONT meanwhile: a command may have stopped it."""
    until = asyncio.get_running_loop().time() + _KEEPER_ENDS
    while not told.done() and asyncio.get_running_loop().time() < until:
        if process is not None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
        await asyncio.wait({told}, timeout=_NUDGE)


async def _gone(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


async def _all_of(channel: socket.socket, started: asyncio.Future[None]) -> bytes:
    """Return the supervisor's two lines, fewer if it is gone; the first says that the command has started."""
    loop, told = asyncio.get_running_loop(), b""
    with suppress(OSError, asyncio.CancelledError):
        while told.count(b"\n") < 2 and (data := await loop.sock_recv(channel, 1024)):
            told += data
            if not started.done():
                started.set_result(None)
    if not started.done():
        started.set_result(None)
    if told.count(b"\n") == 1:  # it was killed: at least the command's own group goes with it
        with suppress(OSError, ValueError, IndexError):
            os.killpg(int(told.split()[1]), signal.SIGKILL)
    return told


async def _undisturbed(work: Awaitable[T]) -> T:
    """Await to the end even if this task is cancelled meanwhile, and be cancelled then."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()
