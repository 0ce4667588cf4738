"""Cache the logs of this process, so that a state saved and loaded each round costs what is new in it.

Both the cached log and the one handed out are copies. If two state handles shared one log, running one of them would
change it while the other was reading it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any
from weakref import WeakKeyDictionary

from ...core.codec import Log
from ...core.errors import LogDamaged, RunMissing
from ...core.events import Step
from ...core.seal import TAB, verify
from ...journal.base import RESERVED, Journal, Store, is_other_store
from .open_run import chain_of

_KEPT = 16
_CHARACTERS = 4_000_000
_WORTH = 16  # a shorter log is as quickly read
_recent: dict[str, Log] = {}
# With the id that the store had then: what is read of a store that was restored and settled is another log.
_journals: WeakKeyDictionary[Any, dict[str, tuple[Log, str]]] = WeakKeyDictionary()
_lock = threading.Lock()


def keep(run: str, log: Log) -> None:
    """Cache a log as it stands: the last few, and not the huge ones."""
    if log.size > _CHARACTERS:
        return
    _recent.pop(run, None)
    _recent[run] = log.copy()
    while len(_recent) > _KEPT:
        _recent.pop(next(iter(_recent)), None)


async def recall(run: str, text: str) -> Log:
    """Return the log that a text holds: from the cache where it stood exactly there, else decoded anew."""
    known = _recent.get(run)
    if known is not None and known.says(text):
        return known.copy()
    log = await _in_turns(Log.reading(text))
    keep(run, log)
    return log


def forget() -> None:
    """Empty the cache, as in another process."""
    _recent.clear()
    _journals.clear()


async def log_in(journal: Journal, run: str) -> Log:
    """Read the log of a run as its journal has it now; an empty one for an unknown run.

    Each line is verified before anything in it is believed, once for each line: a log that was verified here before is
    read on from where it stood. `LogDamaged` names the line that is not the one that was written.
    """
    if run.startswith(RESERVED):  # it is no run
        raise RunMissing(run)
    with _lock:
        known = _journals.get(journal, {}).get(run)
        log = None if known is None else known[0].copy()
    if log is None or known is None or log.chain is None:
        return await _in_turns(Log.opening(await journal.read(run), chain_of(journal, run)))
    last = log.lines()[-1] + TAB + log.chain.last
    lines = await _read_on(journal, run, len(log) - 1)
    if lines and lines[0] == last:
        log.extend(lines[1:])
        return log
    lines = await journal.read(run)  # erased it has none
    found = await _in_turns(Log.opening(lines, chain_of(journal, run)))
    if lines and len(lines) < len(log) and not await is_other_store(journal, known[1]):
        raise LogDamaged(run, len(lines), "is no longer there, and was here before")
    return found


async def _in_turns(reading: Generator[None, None, Log]) -> Log:
    """Read a log, and let others of the event loop have their turns whenever it pauses."""
    while True:
        try:
            next(reading)
        except StopIteration as read:
            return read.value
        await asyncio.sleep(0)


async def _read_on(journal: Journal, run: str, after: int) -> list[bytes]:
    try:
        return await journal.read(run, after)
    except LogDamaged:  # the whole of it says at which line
        return []


async def verify_run(store: Store, run: str) -> int | None:
    """Find the first line of a run that is not the one that was written there; None if all are.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(verify_run(MemoryJournal(), "unknown"))
    """
    return verify(chain_of(store, run), await store.hashes(run))


async def caught_up(journal: Journal, log: Log) -> list[Step]:
    """Verify and fold what others appended to a log since it was read; return the steps.

    A journal that counts other lines than it has would let whoever appends try for ever: that is `LogDamaged`.
    """
    run = log.run.id
    if log.chain is None:
        assert not log.steps, "a log that was begun elsewhere is attached before anything is read into it"
        log.chain = chain_of(journal, run)
    lines = await journal.read(run, len(log))
    if lines or await journal.head(run) == len(log):
        return log.extend(lines)
    lines = await journal.read(run, len(log))  # somebody may have appended in between
    if not lines:
        raise LogDamaged(run, len(log), "is not there, or not as many lines are as the journal counts")
    return log.extend(lines)


def kept_in(journal: Journal, log: Log) -> None:
    """Cache the log of a run that was just read or written whole: of each journal the last few, and no huge ones."""
    if len(log) < _WORTH or sum(map(len, log.lines())) > _CHARACTERS:
        return
    with _lock:
        kept: dict[str, tuple[Log, str]] = _journals.setdefault(journal, {})
        kept.pop(log.run.id, None)
        kept[log.run.id] = (log.copy(), getattr(journal, "identity", ""))
        while len(kept) > _KEPT:
            kept.pop(next(iter(kept)))
