"""Logs of this process whose text may come back: a conversation saved and loaded each round costs what is new in it.

Sharing one log between two handles is safe: a handle is pinned to its position, and a run is driven by one at a time.
"""

from __future__ import annotations

from ..core.codec import Log
from ..core.upcasts import VERSION

_KEPT = 16
_CHARACTERS = 4_000_000
_recent: dict[str, Log] = {}


def keep(run: str, log: Log) -> None:
    """Remember a log: the last few, and not the huge ones."""
    if log.size > _CHARACTERS:
        return
    _recent.pop(run, None)
    _recent[run] = log
    while len(_recent) > _KEPT:
        _recent.pop(next(iter(_recent)), None)


def recall(run: str, text: str, version: str = VERSION) -> Log:
    """The log that a text holds: the one at hand where it stands exactly there, else read anew."""
    known = _recent.get(run)
    if known is not None and version == VERSION and known.says(text):
        return known
    log = Log.of(text, version)
    keep(run, log)
    return log


def forget() -> None:
    """Forget all, as another process would."""
    _recent.clear()
