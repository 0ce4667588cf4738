"""Count the steps of a piece of work, so that a promise about its cost holds on a busy machine too. No test is here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self


class Calls:
    """Counts the calls of functions, of Python's and of C's, that this thread makes within `with`."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _note(self, _frame: Any, event: str, _about: Any) -> None:
        self.count += event in ("call", "c_call")


def calls(work: Callable[[], object]) -> int:
    """Count the calls that the work makes in this thread.

    >>> calls(lambda: [abs(n) for n in range(100)]) >= 100
    True
    """
    with Calls() as counted:
        work()
    return counted.count


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
