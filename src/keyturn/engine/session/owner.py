"""Say whose a session is: the first requester who starts a run on it owns it, and nobody else reads what was said.

Whose it is stands in a log of its own in the journal, whose id follows from the session's: what two processes write at
once is one owner, in every store. It is read once in a process, at the first start; it never changes.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from ...core import commands as cm
from ...core.codec import Log
from ...core.errors import Conflict, LogDamaged, NotPending, StorageError
from ...core.queueing import OWNED
from ...journal.base import Journal
from ...sessions.base import called
from ..driving.writer import Writer
from ..run.about import session_name
from ..run.log_cache import log_in
from ..run.open_run import clock_ms, new_salt, wrapped

#: Under which agent these logs are listed.
AGENT = "keyturn:session"
_KEPT = 10_000
_known: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


async def own_session(journal: Journal, session_id: str | None, requester: str, unowned: Any = None) -> None:
    """Make a requester the owner of a session that has none, or raise `NotPending` where it is another's.

    With `unowned`, the session itself, one that nobody owns is taken only while nothing was said in it: what the
    program kept before owners were recorded, or for nobody, is given away by the program alone.
    """
    if session_id is None:
        return
    name = session_name({"session": session_id})
    known = _known.setdefault(journal, {})
    owner = known.get(name)
    if owner is None:
        owner = await _owner(journal, name)
        if owner is None:
            if unowned is not None and await called(unowned.get_items, wrapped(None), limit=1):
                raise _missing(session_id)
            owner = await _taken(journal, name, requester)
        if len(known) >= _KEPT:
            known.clear()
        known[name] = owner
    if owner != requester:
        raise _missing(session_id)


def _missing(session_id: str) -> NotPending:
    return NotPending(f"there is no session {session_id!r} of this requester; choose another id for a new conversation")


async def _owner(journal: Journal, name: str) -> str | None:
    log = await log_in(journal, owner_id(name))
    if not log.steps:
        return None
    if log.run.about.get(OWNED) != name or log.run.requester is None:
        raise LogDamaged(owner_id(name), 0, "does not say whose session it is")
    return log.run.requester


async def _taken(journal: Journal, name: str, requester: str) -> str:
    run = owner_id(name)
    begin = cm.Start(run, new_salt(run), "", {OWNED: name}, AGENT, [], None, requester=requester)
    try:
        await Writer(Log(), journal, clock_ms).commit(begin, cm.CloseRun(None, []))
    except (Conflict, StorageError):  # another process was faster
        owner = await _owner(journal, name)
        if owner is None:
            raise
        return owner
    return requester


def owner_id(name: str) -> str:
    """Return the id of the log that says whose a session is."""
    return f"session-{name[:32]}"
