"""Commands on this machine: each in a session of its own, in time, with bounded output, and nothing left behind.

What a call may not reach by itself: the secrets in this process's environment (only the names in `PASSED` and those
that are given are passed on), and a terminal or any other input. It is no wall: a command that runs here can
do what this process can. `bubblewrap.py` is the wall.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import UserError
from .base import OutcomeUnknown, ToolProblem
from .shell_calls import ShellCallOutcome, ShellCommandOutput, ShellResult
from .shell_output import Kept, allowed_length, fitted

T = TypeVar("T")
PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"
_KEEPER = str(Path(__file__).with_name("shell_keeper.py"))
_GRACE = 1.0  # from SIGTERM to SIGKILL
_KEEPER_ENDS = 10.0  # the keeper's own time for ending everything, and some more


class LocalExecutor:
    """Runs commands on this machine as this process's user, without a sandbox.

    Commands start in `root`, and none takes longer than `timeout` seconds; a request may ask for less. `env` is set for
    them; of this process's environment they get PATH, HOME, the locale and the names in `inherit`.

    >>> executor = LocalExecutor("/tmp", timeout=20)
    >>> executor.about()["runs"]
    'on this machine, not in a sandbox'
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        timeout: float = 120,
        env: Mapping[str, str] | None = None,
        inherit: tuple[str, ...] = (),
    ) -> None:
        if isinstance(timeout, bool) or not timeout > 0:
            raise UserError(f"timeout is a number of seconds above zero, not {timeout!r}")
        if isinstance(inherit, str):
            raise UserError("inherit is a list of names of environment variables, not one text")
        self.root = os.path.realpath(root)
        self.timeout = timeout
        self.inherit = tuple(inherit)
        self.env = dict(env or {})
        self.shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"

    def about(self) -> dict[str, Any]:
        """Where and how commands run: shown to people, and part of what they approve."""
        passed = sorted({*self.inherit, *self.env})
        return {
            "runs": "on this machine, not in a sandbox",
            "in": self.root,
            "shell": self.shell,
            "seconds": self.timeout,
            **({"environment": passed} if passed else {}),
        }

    async def __call__(self, request: Any) -> ShellResult:
        """Run a request of `ShellTool` or of `LocalShellTool`."""
        action = request.data.action
        if hasattr(action, "command"):
            if action.user is not None:
                raise ToolProblem("The command was not run: this shell cannot become another user.")
            ran = await self.run(
                action.command, cwd=action.working_directory or "", env=action.env, timeout_ms=action.timeout_ms
            )
            return ShellResult([ran])
        return await self._one_by_one(action.commands, action.timeout_ms, action.max_output_length)

    async def _one_by_one(self, commands: list[str], timeout_ms: int | None, length: int | None) -> ShellResult:
        done: list[ShellCommandOutput] = []
        for command in commands:
            line = [self.shell, "-c", "--", command]
            done.append(await self.run(line, timeout_ms=timeout_ms, max_output=length))
            done[-1].command = command
            if done[-1].outcome.type == "timeout":
                left = len(commands) - len(done)
                done[-1].stderr += f"\n[not run after this: {left} of {len(commands)} commands]" if left else ""
                break
        return ShellResult(done, length)

    async def run(
        self,
        argv: list[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
        max_output: int | None = None,
    ) -> ShellCommandOutput:
        """Run one program with its arguments, in `cwd` below the root."""
        environment = self._environment(env)
        line = self._line([_found(argv[0], environment), *argv[1:]], self._inside(cwd))
        if any("\0" in text for text in (*line, *environment, *environment.values())):
            raise ToolProblem("The command was not run: it holds a NUL character, at which it would end unseen.")
        seconds = self.timeout if timeout_ms is None else min(timeout_ms / 1000, self.timeout)
        length = allowed_length(max_output)
        kept = [Kept(length), Kept(length)]
        ended = await _Keeper().run(line, (self._inside(cwd), environment), kept, seconds)
        return _output(ended, kept, seconds, length)

    def _inside(self, cwd: str) -> str:
        """A directory below the root, where its links lead in the end."""
        place = os.path.realpath(os.path.join(self.root, cwd))
        if place != self.root and os.path.commonpath([place, self.root]) != self.root:
            raise ToolProblem("The command was not run: its working directory is outside of the workspace.")
        if not os.path.isdir(place):
            raise ToolProblem("The command was not run: its working directory does not exist.")
        return place

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        passed = {name: os.environ[name] for name in (*PASSED, *self.inherit) if name in os.environ}
        passed.setdefault("PATH", PLAIN_PATH)
        return {**passed, **self.env, **(env or {})}

    def _line(self, argv: list[str], cwd: str) -> list[str]:
        """The whole line that is started; a sandbox puts itself in front."""
        return argv


def _found(program: str, environment: Mapping[str, str]) -> str:
    """The file of a program, sought as the system would with this environment."""
    found = program if "/" in program else shutil.which(program, path=environment.get("PATH") or PLAIN_PATH)
    if not found:
        raise ToolProblem("The command was not run: there is no such program here.")
    return found


class _Ended:
    """How a command ended: its exit code, and whether it was stopped because its time was over."""

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
    """One pipe being read into what is kept of it."""

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
        """A stream, what closes it, and the end that is written to."""
        read, write = os.pipe()
        file = os.fdopen(read, "rb", 0)
        try:
            transport, stream = await asyncio.get_running_loop().connect_read_pipe(lambda: cls(kept), file)
        except BaseException:
            file.close()
            os.close(write)
            raise
        return stream, transport, write


class _Keeper:
    """The keeper of one command, seen from here; see `shell_keeper.py`."""

    def __init__(self) -> None:
        self._channel, self._theirs = socket.socketpair()
        self._channel.setblocking(False)
        self._streams: list[_Stream] = []
        self._opened: list[asyncio.BaseTransport] = []

    async def run(self, line: list[str], place: tuple[str, dict[str, str]], kept: list[Kept], seconds: float) -> _Ended:
        """Run a command to its end, or bring that about when its time is over or nobody waits any more."""
        told = asyncio.ensure_future(_all_of(self._channel))
        timed_out = False
        process: asyncio.subprocess.Process | None = None
        try:
            process = await self._start(line, place, kept)
            done, _ = await asyncio.wait({told}, timeout=seconds)
            timed_out = not done
        finally:
            await _undisturbed(self._close(told, process))
        return _Ended(told.result(), timed_out)

    async def _start(
        self, line: list[str], place: tuple[str, dict[str, str]], kept: list[Kept]
    ) -> asyncio.subprocess.Process:
        ends: list[int] = []
        cwd, env = place
        try:
            for each in kept:
                stream, transport, end = await _Stream.open(each)
                self._streams.append(stream)
                self._opened.append(transport)
                ends.append(end)
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _KEEPER, str(self._theirs.fileno()), str(_GRACE), *line),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=ends[0],
                stderr=ends[1],
                cwd=cwd,
                env=env,
                pass_fds=(self._theirs.fileno(),),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolProblem(f"The command could not be started ({type(error).__name__}).") from error
        finally:
            for end in ends:
                os.close(end)
            self._theirs.close()

    async def _close(self, told: asyncio.Future[bytes], process: asyncio.subprocess.Process | None) -> None:
        """Have everything ended: a closed channel is the keeper's word for it, and it also stands if we are killed."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        await asyncio.wait({told}, timeout=_KEEPER_ENDS)
        if process is not None:
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


async def _gone(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


async def _all_of(channel: socket.socket) -> bytes:
    """The keeper's two lines; fewer if it is gone."""
    loop, told = asyncio.get_running_loop(), b""
    with suppress(OSError, asyncio.CancelledError):
        while told.count(b"\n") < 2 and (data := await loop.sock_recv(channel, 1024)):
            told += data
    if told.count(b"\n") == 1:  # it was killed: at least the command's own group goes with it
        with suppress(OSError, ValueError, IndexError):
            os.killpg(int(told.split()[1]), signal.SIGKILL)
    return told


async def _undisturbed(work: Awaitable[T]) -> T:
    """Do it to the end even if this task is cancelled meanwhile, and be cancelled then."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()


def _output(ended: _Ended, kept: list[Kept], seconds: float, length: int) -> ShellCommandOutput:
    notes: list[str] = []
    if ended.timed_out:
        notes.append(f"[stopped after {seconds:g} s]")
    elif ended.found:
        notes.append(f"[{ended.found} of its processes were still running and were ended]")
    room = max(length - sum(len(note) + 1 for note in notes), 0)
    stdout, stderr = fitted(kept[0], kept[1], room)
    outcome = ShellCallOutcome("timeout") if ended.timed_out else ShellCallOutcome("exit", ended.exit_code)
    return ShellCommandOutput(stdout, "\n".join([*([stderr] if stderr else []), *notes]), outcome)
