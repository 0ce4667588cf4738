"""Starts Python programs in processes forked from one that has Keyturn imported: a tenth of the cost of an interpreter.

`run` and `Program` are `subprocess.run` and `subprocess.Popen` for what would follow `sys.executable`: `-c TEXT`, `-m
MODULE` or a script, with `-P` before it. The template process imports nothing until the first program is asked for; it
is shared by all test processes, and ends with the last of them. A test whose promise is what an interpreter imports or
how it starts uses `subprocess`. No test is here.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from trials.forks import ends_with

ROOT = Path(__file__).resolve().parents[1]
PIPE, DEVNULL, STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT
#: What most programs import sooner or later.
PRELOADED = (
    "keyturn.cli.main", "keyturn.testing", "keyturn.journal.sqlite", "keyturn.mcp.server", "keyturn.inbox.desk",
    "keyturn.audit.checker", "keyturn.realtime", "keyturn.server.running", "keyturn.server.asgi",
    "keyturn.application.app", "keyturn.engine.worker", "pydantic", "mcp.server", "uvicorn",
    "websockets.asyncio.client", "websockets.asyncio.server",
)  # fmt: skip
_LONGEST = 200_000
_NAMED = 60
_LAUNCHER = Path(__file__).with_name("forked_launcher.py")

# -------------------------------------------------------------------------------------------------- the side of tests


@cache
def template() -> Path:
    """Start the template process; return the path of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="keyturn-forked-"))
    _make_python(folder)
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.bind(str(folder / "socket"))
    ours.listen(64)
    alive, ends = os.pipe()
    os.set_inheritable(ends, False)
    subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.forked", str(ours.fileno()), str(alive), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        pass_fds=[ours.fileno(), alive],
        stdin=DEVNULL,
        start_new_session=True,
    )
    ours.close()
    os.close(alive)
    _KEPT.append(ends)  # when the last process that has it is gone, so is the template
    return folder / "socket"


_KEPT: list[int] = []


def _make_python(folder: Path) -> None:
    """Make what programs with `children` have as `sys.executable`: it starts what it can here, the rest as it is."""
    script = folder / "python"
    begins = f"#!{sys.executable} -IS\nimport sys\nsys.argv[1:1] = [{str(folder / 'socket')!r}]\n"
    script.write_text(begins + _LAUNCHER.read_text(encoding="utf-8"), encoding="utf-8")
    script.chmod(0o700)
    (folder / "keyturn").symlink_to(Path(sys.executable).with_name("keyturn"))


def launcher(*words: str) -> list[str]:
    """Return a command for what starts a Python program itself: it starts one of ours, and is as long as that is."""
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(template()), *words]


def python() -> str:
    """Return a program that stands for `sys.executable` where another program starts ours, however deep."""
    return str(template().with_name("python"))


class Program:
    """A Python program at work, as `subprocess.Popen` shows one.

    `terminal` is the descriptor of a pseudo-terminal that becomes the program's own, in place of its three streams.
    `preload` names modules that the template imports first, once for all programs. With `children`, what the program
    starts by `sys.executable` is forked as well: it is in a session of its own, and has another number than its parent
    sees, but streams, signals and the exit code are passed on.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        start_new_session: bool = False,
        terminal: int | None = None,
        preload: Sequence[str] = (),
        children: bool = False,
    ) -> None:
        self.args, self.returncode = list(words), None
        self._heard = b""
        theirs: list[int] = []
        if terminal is None:
            self.stdin, given = _stream(stdin, 0, text=text)
            self.stdout, out = _stream(stdout, 1, text=text)
            self.stderr, err = (None, out) if stderr == STDOUT else _stream(stderr, 2, text=text)
            streams = [given, out, err]
            theirs = [fd for fd, mine in zip(streams, (stdin, stdout, stderr), strict=True) if mine in (PIPE, DEVNULL)]
        else:
            self.stdin = self.stdout = self.stderr = None
            streams = [terminal] * 3
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._told.connect(str(template()))
        job = {
            "words": self.args,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session or terminal is not None,
            "terminal": terminal is not None,
            "preload": list(preload),
            "executable": python() if children else None,
        }
        socket.send_fds(self._told, [json.dumps(job).encode()], streams)
        for fd in theirs:
            os.close(fd)
        self.pid = int(self._line(None) or 0)
        assert self.pid, "the template process is gone: what it said is in the output of the tests"

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_error: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.wait()

    def _line(self, seconds: float | None) -> str | None:
        """Read a line of the template; None where none comes in time."""
        ends = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._heard:
            left = None if ends is None else max(ends - time.monotonic(), 0)
            if not select.select([self._told], [], [], left)[0]:
                return None
            got = self._told.recv(64)
            if not got:
                return str(-signal.SIGKILL)  # the template was ended, and its children with it
            self._heard += got
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            line = self._line(timeout)
            if line is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(line)
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write, read all, and wait for the end; None for a stream that is not piped."""
        said: dict[str, Any] = {}

        def read(name: str, stream: Any) -> None:
            said[name] = stream.read()

        pairs = {"stdout": self.stdout, "stderr": self.stderr}
        readers = [threading.Thread(target=read, args=pair) for pair in pairs.items() if pair[1] is not None]
        for reader in readers:
            reader.start()
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                if input:
                    self.stdin.write(input)
                self.stdin.close()
        ends = None if timeout is None else time.monotonic() + timeout
        for reader in readers:
            reader.join(None if ends is None else max(ends - time.monotonic(), 0))
        self.wait(None if ends is None else max(ends - time.monotonic(), 0))
        return said.get("stdout"), said.get("stderr")


def _stream(asked: Any, number: int, *, text: bool) -> tuple[Any, int]:
    """Return what the test keeps of a stream, and the descriptor that the program gets."""
    if asked == PIPE:
        reading, writing = os.pipe()
        ours, theirs = (writing, reading) if number == 0 else (reading, writing)
        binary = os.fdopen(ours, "wb" if number == 0 else "rb")
        return (io.TextIOWrapper(binary, encoding="utf-8") if text else binary), theirs
    if asked == DEVNULL:
        return None, os.open(os.devnull, os.O_RDWR)
    return None, number if asked is None else asked if isinstance(asked, int) else asked.fileno()


def run(
    words: Sequence[str],
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, as `subprocess.run` does; one that takes too long is killed."""
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    if input is not None:
        options["stdin"] = PIPE
    with Program(words, **options) as program:
        try:
            out, err = program.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            raise subprocess.TimeoutExpired(program.args, timeout or 0) from None
        except BaseException:
            program.kill()
            raise
    done = subprocess.CompletedProcess(program.args, program.wait(), out, err)
    if check:
        done.check_returncode()
    return done


# ----------------------------------------------------------------------------------------------- the template process


class _Template:
    """Forks a program for each connection, tells it how the program ended, and ends the program if it is closed."""

    def __init__(self, listening: socket.socket, alive: int) -> None:
        self.listening, self.alive = listening, alive
        self.running: dict[int, socket.socket] = {}
        self.names: dict[int, str] = {}
        self.base = list(sys.path)

    def serve(self) -> dict[str, Any] | None:
        """Serve until no test process is left; return a job in each process that is forked."""
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes)
        while True:
            lines = {line: pid for pid, line in self.running.items()}
            ready = select.select([self.listening, self.alive, woken, *lines], [], [])[0]
            if self.alive in ready:
                return None
            if woken in ready:
                os.read(woken, 4096)
                self.reap()
                continue
            for line in (line for line in ready if line in lines):
                os.kill(lines[line], signal.SIGKILL)
                self.running.pop(lines[line]).close()
            if self.listening in ready:
                line, _ = self.listening.accept()
                job = self.fork(line, [woken, wakes])
                if job is not None:
                    return job

    @cache  # noqa: B019 - there is one template
    def commands(self) -> None:
        """Import the commands of the command line."""
        for found in pkgutil.walk_packages(importlib.import_module("keyturn.cli").__path__, "keyturn.cli."):
            importlib.import_module(found.name)

    def reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            _note(f"@ program: {self.names.pop(pid, '')}", used.ru_utime + used.ru_stime)
            line = self.running.pop(pid, None)
            if line is not None:
                with line, contextlib.suppress(OSError):
                    line.send(f"{os.waitstatus_to_exitcode(status)}\n".encode())

    def fork(self, line: socket.socket, own: list[int]) -> dict[str, Any] | None:
        message, fds, _, _ = socket.recv_fds(line, _LONGEST, 3)
        if not message:
            line.close()
            return None
        job: dict[str, Any] = json.loads(message)
        for name in (*PRELOADED, *job["preload"]):
            importlib.import_module(name)
        self.commands()
        gc.collect()
        gc.freeze()
        parent = os.getpid()
        pid = os.fork()
        if pid:
            for fd in set(fds):
                os.close(fd)
            self.running[pid] = line
            self.names[pid] = " ".join(job["words"]).replace("\n", "; ")[:_NAMED]
            with contextlib.suppress(OSError):
                line.send(f"{pid}\n".encode())
            return None
        ends_with(parent)
        signal.set_wakeup_fd(-1)
        for other in (*self.running.values(), line, self.listening):
            other.close()
        for fd in (*own, self.alive):
            os.close(fd)
        return {**job, "fds": fds, "path": self.base}


def _note(what: str, seconds: float) -> None:
    if "KEYTURN_COSTS" in os.environ:
        costs: Any = importlib.import_module("tests.costs")
        costs.note(what, costs.Spent(0.0, seconds))


def _become(job: dict[str, Any]) -> None:
    """Make this process look like one that was just started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if job["session"]:
        os.setsid()
    fds = job["fds"]
    if job["terminal"]:
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    for fd in fds:
        if fd > 2:
            os.close(fd)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    random.seed()
    sys.executable = job["executable"] or sys.executable
    loose = "PYTHONUNBUFFERED" in job["env"]
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = sys.__stdout__ = _writer(1, "strict", lines=loose or os.isatty(1))
    sys.stderr = sys.__stderr__ = _writer(2, "backslashreplace", lines=True)


def _writer(number: int, errors: str, *, lines: bool) -> io.TextIOWrapper:
    buffered = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(buffered, encoding="utf-8", errors=errors, line_buffering=lines)


def _play(job: dict[str, Any]) -> None:
    """Do what `python WORDS` does."""
    words: list[str] = job["words"]
    alone = words[0] == "-P"
    kind, rest = words[alone], words[alone + 1 :]
    first = "" if kind == "-c" else job["cwd"] if kind == "-m" else str(Path(kind).resolve().parent)
    added = [path for path in job["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    own = [path for path in job["path"] if path not in (str(ROOT), str(ROOT / "src"))]
    sys.path[:] = [*([] if alone else [first]), *added, *own, str(ROOT / "src")]
    importlib.invalidate_caches()
    if kind == "-m":
        sys.argv = rest
        if not hasattr(sys.modules.get(rest[0]), "__path__"):
            sys.modules.pop(rest[0], None)  # runpy warns of a module that was imported before it is run
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    text, path = (rest[0], "<string>") if kind == "-c" else (Path(kind).read_text(encoding="utf-8"), kind)
    sys.argv = ["-c", *rest[1:]] if kind == "-c" else [kind, *rest]
    module = ModuleType("__main__")
    if kind != "-c":
        module.__file__ = kind
    template_module, sys.modules["__main__"] = sys.modules["__main__"], module
    exec(compile(text, path, "exec"), module.__dict__)
    del template_module  # what runs now is its code: it had to stay


def main() -> None:
    """Be the template; in each process that it forks, be the program."""
    listening, alive, folder = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
    job = _Template(listening, alive).serve()
    if job is None:
        shutil.rmtree(folder, ignore_errors=True)
        _note("@ the template of programs", time.process_time())
    else:
        _become(job)
        _end(_code(job))


def _code(job: dict[str, Any]) -> int:
    """Play a program to its end, and return its exit code."""
    try:
        _play(job)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return -signal.SIGINT
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> None:
    """End as an interpreter does, but for taking apart all that the template had imported."""
    threading._shutdown()  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
