"""The processes that try at the same time, and the one that counts what they say, a line of JSON for each trial.

What they try is not known here.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from .forks import ends_with
from .table import Tally

Say = Callable[[str, dict[str, int], list[str], str], None]
Work = Callable[[int, Say], None]


def crew(jobs: int, work: Work, tally: Tally, total: int) -> None:
    """Have `jobs` processes do `work(number, say)`, and count what they say."""
    ends, parent = list[int](), os.getpid()
    for number in range(jobs):
        end, out = os.pipe()
        if os.fork() == 0:
            ends_with(parent)
            os.close(end)
            _member(number, work, out)
        os.close(out)
        ends.append(end)
    early = _ended_early(tally, ends, total)
    for end in ends:
        os.close(end)  # who still tries is told by that
    codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(jobs)]
    if early:
        tally.title += f", ended early: {tally.tried:,} of {total:,}"
    elif any(codes):
        tally.violations.append(f"the trials themselves: workers ended with {codes}")


def _member(number: int, work: Work, out: int) -> None:
    def say(kind: str, met: dict[str, int], broken: list[str], trial: str) -> None:
        line: dict[str, Any] = {"kind": kind, "met": met, "violations": broken, "trial": trial}
        os.write(out, json.dumps(line).encode() + b"\n")

    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that counts decides
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work(number, say)
        code = 0
    except BrokenPipeError:  # the series was ended early
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended_early(tally: Tally, ends: list[int], total: int) -> bool:
    """Count until all is said, or somebody ends it: what was tried until then was tried."""
    try:
        _collect(tally, ends, total)
    except (KeyboardInterrupt, SystemExit):
        return True
    return False


def _collect(tally: Tally, ends: list[int], total: int) -> None:
    heard = dict.fromkeys(ends, b"")
    begun = time.monotonic()
    with selectors.DefaultSelector() as ready:
        for end in ends:
            ready.register(end, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select():
                *lines, heard[key.fd] = (heard[key.fd] + _read(ready, key.fd)).split(b"\n")
                tell(tally.add_all(map(json.loads, lines)))
            show(f"{tally.tried:,} of {total:,}, {tally.broken:,} violations, {time.monotonic() - begun:.0f} s")
    show("")


def _read(ready: selectors.BaseSelector, end: int) -> bytes:
    got = os.read(end, 65_536)
    if not got:
        ready.unregister(end)
    return got


def tell(broken: list[str]) -> None:
    """Say at once which promises were broken: a long series need not be waited for."""
    for each in broken:
        print(f"\nbroken: {each}", file=sys.stderr, flush=True)


def show(line: str) -> None:
    """Say where we are, to a person at a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
