"""Record the owner of a session: the first requester who starts a run on it, and refuse runs of other requesters.

The owner is a log of its own in the journal, whose id follows from the session's: two processes that write it at once
record one owner, in every store. A process reads it once, at the first start; it never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ...core import commands as cm
from ...core.codec import Log
from ...core.errors import Conflict, LogDamaged, NotPending, StorageError
from ...core.queueing import OWNED
from ...journal.base import Journal
from ...sessions.base import called, keeps_users_apart
from ..driving.writer import Writer
from ..run.about import session_name
from ..run.log_cache import log_in
from ..run.open_run import clock_ms, new_salt, wrapped

#: Under which agent these logs are listed.
AGENT = "keyturn:session"
_KEPT = 10_000
# With the id that the store had then: one that was restored may have other owners.
_known: WeakKeyDictionary[Any, tuple[str, dict[str, str]]] = WeakKeyDictionary()


async def own_session(
    journal: Journal | None, about: Mapping[str, Any], requester: str | None, unowned: Any = None
) -> None:
    """Make a requester the owner of a session that has none, or raise `NotPending` where another requester owns it.

    `about` is what a run says of it. Nothing is recorded without a journal, a session's id or a requester. With
    `unowned`, the session itself, a session without an owner is owned only while it is empty: an older one, or one of
    runs without a requester, can be assigned by the program alone.
    """
    session_id = about.get("session")
    if journal is None or requester is None or not isinstance(session_id, str):
        return
    name = session_name(about)
    known = _known_in(journal)
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


def _known_in(journal: Any) -> dict[str, str]:
    store = getattr(journal, "identity", "")
    seen, known = _known.get(journal, (store, dict[str, str]()))
    _known[journal] = (store, known if seen == store else {})
    return _known[journal][1]


async def own_given(journal: Journal | None, session: object, requester: str | None, about: Mapping[str, Any]) -> None:
    """Make a requester the owner of the session that a run is given, by the id that an app or the session itself names.

    A session that keeps a conversation for each user is one object of many owners, and has none unless an app names it.
    """
    named = about.get("session")
    if named is None and session is not None and not keeps_users_apart(session):
        named = getattr(session, "session_id", None)
    await own_session(journal, {**about, "session": named}, requester)


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
