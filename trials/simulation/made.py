"""What the engine takes from the real world, made here while a simulation runs: time and ids.

Nothing else is replaced: the code that runs is the code that ships.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import Any

from keyturn.asks import service as asks
from keyturn.channels import dispatcher
from keyturn.core.seal import Ring
from keyturn.directory import book, people
from keyturn.engine import worker
from keyturn.engine.run import new_ids, open_run
from keyturn.journal import memory

from .loop import PROCESS, Process, VirtualLoop

EPOCH_MS = 1_700_000_000_000
_NOBODY = Process("nobody")


class Made:
    """The loop and the dice of the seed that runs now."""

    loop = VirtualLoop(Random(0))
    dice = Random(0)


class _Time:
    """`time`, as far as the engine asks it: a process may be wrong about the date, never about how long."""

    @staticmethod
    def time_ns() -> int:
        return (EPOCH_MS + round(Made.loop.now * 1_000) + PROCESS.get(_NOBODY).skew) * 1_000_000

    @staticmethod
    def clock_gettime(_clock: int) -> float:
        return Made.loop.now

    @staticmethod
    def monotonic() -> float:
        return Made.loop.now


class _Secrets:
    """`secrets`, as far as the engine asks it."""

    @staticmethod
    def token_hex(size: int) -> str:
        return f"{Made.dice.getrandbits(size * 8):0{size * 2}x}"


def journal_time() -> int:
    """The journal's time, which is never wrong."""
    return EPOCH_MS + round(Made.loop.now * 1_000)


@contextmanager
def made_world() -> Generator[None]:
    """Let the engine see the made world and not this one."""
    places: list[tuple[Any, str, Any]] = [
        (open_run, "time", _Time),
        (asks, "time", _Time),
        (new_ids, "secrets", _Secrets),
        (open_run, "_PROCESS_SECRET", b"simulated" * 3),
        (memory, "_RING", Ring([b"simulated" * 3])),
        (new_ids, "_this_process", lambda: "made"),
        (book, "secrets", _Secrets),
        (book, "uniform", lambda low, high: Made.dice.uniform(low, high)),
        (people, "secrets", _Secrets),
        (dispatcher, "secrets", _Secrets),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, value in places:
        setattr(owner, name, value)
    loud = [log for log in (worker.log, dispatcher.log) if not log.disabled]
    for log in loud:
        log.disabled = True  # they warn of what is done to them here
    try:
        yield
    finally:
        for log in loud:
            log.disabled = False
        for owner, name, value in before:
            setattr(owner, name, value)


__all__ = ["EPOCH_MS", "Made", "journal_time", "made_world"]
