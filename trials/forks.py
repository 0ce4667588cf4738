"""Processes made by forking one that has everything imported: a fresh process in a millisecond, and how it ended.

Whoever forks has no threads and no open store. A child tells what it found as JSON over a pipe; one that was killed
has told nothing.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

SECONDS = 30.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Ended:
    """How a child ended: what it said, and the signal that ended it, if one did."""

    said: Any
    signal: int | None
    late: bool = False

    @property
    def killed(self) -> bool:
        """Whether it was killed as a trial means it."""
        return self.signal == signal.SIGKILL and not self.late


class Child:
    """A forked process that does one thing. `told` is where its answer comes from, `telling` whether there is more."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self.told, answer = os.pipe()
        self.telling = True
        self._heard = bytearray()
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # what is shared stays shared: a child that collects would copy all of it
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            ends_with(parent)
            gc.disable()
            os.close(self.told)
            _live(do, answer)
        os.close(answer)

    def hear(self) -> bool:
        """Read what there is; False once it has said all."""
        got = os.read(self.told, 65_536)
        self._heard += got
        self.telling = bool(got)
        return self.telling

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, seconds: float = SECONDS) -> Ended:
        """Wait for its end; one that takes too long is ended, and that is told."""
        limit = time.monotonic() + seconds
        late = False
        while True:
            ready, _, _ = select.select([self.told], [], [], max(limit - time.monotonic(), 0))
            if not ready and not late:
                late = True
                limit += 5
                self.kill()
            elif not ready or not self.hear():
                return self.ended(late=late)

    def ended(self, *, late: bool = False) -> Ended:
        """How it ended, once it has said all."""
        os.close(self.told)
        _, status = os.waitpid(self.pid, 0)
        said = json.loads(bytes(self._heard)) if self._heard and not os.WIFSIGNALED(status) else None
        return Ended(said, os.WTERMSIG(status) if os.WIFSIGNALED(status) else None, late)


def ends_with(parent: int) -> None:
    """See that this process does not outlive the one that forked it, whatever it is at. Linux can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _live(do: Callable[[], Any], answer: int) -> None:
    """The child's whole life. It never returns into its parent's code."""
    code = 0
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.dump_traceback_later(SECONDS - 5)  # where it stands still, before it is ended for that
    try:
        said = json.dumps(do())
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        where = " < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in reversed(frames))
        said, code = json.dumps({"error": f"{type(error).__name__}: {error} ({where})"}), 1
    left = said.encode()
    while left:
        left = left[os.write(answer, left) :]
    os._exit(code)
