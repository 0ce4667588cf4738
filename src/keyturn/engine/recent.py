"""Logs of this process that may come back: a conversation saved and loaded each round costs what is new in it.

What is kept is a copy, and so is what comes back: no log is in two hands. A handle reads its log at any time, and
another handle's drive would move it under it, between two steps of it or, from another thread, in the midst of one.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

from ..core.codec import Log
from ..core.upcasts import VERSION
from ..journal.base import Journal

_KEPT = 16
_CHARACTERS = 4_000_000
_WORTH = 16  # a shorter log is as quickly read
_recent: dict[str, Log] = {}
_journals: WeakKeyDictionary[Any, dict[str, Log]] = WeakKeyDictionary()
_lock = threading.Lock()


def keep(run: str, log: Log) -> None:
    """Remember a log as it stands: the last few, and not the huge ones."""
    if log.size > _CHARACTERS:
        return
    _recent.pop(run, None)
    _recent[run] = log.copy()
    while len(_recent) > _KEPT:
        _recent.pop(next(iter(_recent)), None)


def recall(run: str, text: str, version: str = VERSION) -> Log:
    """The log that a text holds: as it is remembered where it stood exactly there, else read anew."""
    known = _recent.get(run)
    if known is not None and version == VERSION and known.says(text):
        return known.copy()
    log = Log.of(text, version)
    keep(run, log)
    return log


def forget() -> None:
    """Forget all, as another process would."""
    _recent.clear()
    _journals.clear()


async def log_in(journal: Journal, run: str) -> Log:
    """The log of a run as its journal has it now; an empty one for a run that it does not know."""
    with _lock:
        known = _journals.get(journal, {}).get(run)
        log = None if known is None else known.copy()
    if log is not None:
        *_, last = log.lines()
        lines = await journal.read(run, len(log) - 1)
        if lines and lines[0] == last:  # erased it has none
            log.extend(lines[1:])
            return log
    return Log.read(await journal.read(run))


def kept_in(journal: Journal, log: Log) -> None:
    """Remember the log of a run that was just read or written whole: of each journal the last few, and no huge ones."""
    if len(log) < _WORTH or sum(map(len, log.lines())) > _CHARACTERS:
        return
    with _lock:
        kept: dict[str, Log] = _journals.setdefault(journal, {})
        kept.pop(log.run.id, None)
        kept[log.run.id] = log.copy()
        while len(kept) > _KEPT:
            kept.pop(next(iter(kept)))
