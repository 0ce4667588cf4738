"""What surrounds a gated call: the run that it belongs to, for whom it acts, and whether it waits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from ..core.errors import UserError
from ..engine.run.new_ids import new_id


@dataclass
class GatedRun:
    """Holds what `gated.context` was given, and how often each call was made within it.

    `process` is the process whose run it is, where the run was given no name: a fork of it is another run.

    >>> context = GatedRun("job-42")
    >>> context.key("refund 5e1f"), context.key("refund 5e1f")
    ('job-42 refund 5e1f 1', 'job-42 refund 5e1f 2')
    """

    run: str
    requester: str | None = None
    wait: float | bool = True
    made: Counter[str] = field(default_factory=Counter[str])
    process: int | None = None

    def key(self, call: str) -> str:
        """Return the key of a call: a run that is repeated asks for its calls by the same keys, in their order."""
        if self.process is not None and self.process != os.getpid():
            self.run, self.process = new_id(), os.getpid()
            self.made.clear()
        self.made[call] += 1
        return f"{self.run} {call} {self.made[call]}"


_here: ContextVar[GatedRun | None] = ContextVar("keyturn_gated", default=None)
_verdict: ContextVar[str | None] = ContextVar("keyturn_decide_all", default=None)
_process = GatedRun(new_id(), process=os.getpid())


def current() -> GatedRun:
    """Return the context of a call that is made here: without any, the process is the run."""
    return _here.get() or _process


def verdict() -> str | None:
    """Return the verdict on all calls that `decide_all` gave, None outside of it."""
    return _verdict.get()


@contextmanager
def entered(run: str | None, requester: str | None, wait: float | bool) -> Generator[GatedRun]:
    """Make the calls within a block those of a run.

    A run that is repeated under the same name joins the requests that it made before. With `wait=False` a call that is
    pending raises `CallWaiting`; a number is how many seconds it waits first.
    """
    if not wait >= 0:  # which NaN is not either: it would be waited for without end
        raise UserError(f"wait is True, False, or a number of seconds, not {wait!r}")
    made = GatedRun(run or new_id(), requester, wait, process=None if run else os.getpid())
    token = _here.set(made)
    try:
        yield made
    finally:
        _here.reset(token)


@contextmanager
def decide_all(verdict: Literal["approve", "reject"]) -> Generator[None]:
    """Decide all gated calls within a block, for tests: nothing is recorded and no person is asked.

    >>> with decide_all("defer"):
    ...     pass
    Traceback (most recent call last):
    ...
    keyturn.core.errors.UserError: decide_all takes "approve" or "reject", not 'defer'
    """
    if verdict not in ("approve", "reject"):
        raise UserError(f'decide_all takes "approve" or "reject", not {verdict!r}')
    token = _verdict.set(verdict)
    try:
        yield
    finally:
        _verdict.reset(token)
