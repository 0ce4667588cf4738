"""Count the steps of a piece of work, so that a promise about its cost holds on a busy machine too. No test is here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls(work: Callable[[], object]) -> int:
    """Count the calls of functions, of Python's and of C's, that the work makes in this thread.

    >>> calls(lambda: [abs(n) for n in range(100)]) >= 100
    True
    """
    count = 0

    def note(_frame: Any, event: str, _about: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def lines(work: Callable[[], object]) -> int:
    """Count the lines of Python that the work runs in this thread: its loops count, whatever they call."""
    count = 0

    def note(_frame: Any, event: str, _about: Any) -> Any:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
