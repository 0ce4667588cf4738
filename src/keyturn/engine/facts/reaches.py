"""Name the runs for which a standing decision holds, beside the run in which it was given.

A name is a digest of what the runs have in common, and of the store: after a restore, or in a copy, nothing that was
granted before holds for other runs, since what was used or revoked meanwhile is not in the copy.
"""

from __future__ import annotations

from typing import Any

from ...core.digest import digest
from ...core.errors import UserError
from ...core.run import Run
from ...policies.grants import Grant, Scope
from ..run.about import STORE


def reaches_of(run: Run, journal: object) -> dict[Scope, str]:
    """Return, by scope, the name of the runs that this one belongs to.

    >>> from keyturn.core.run import new_run
    >>> list(reaches_of(new_run(), object()))
    ['agent']
    """
    store = str(getattr(journal, "identity", ""))
    common: dict[Scope, list[Any]] = {"agent": [], **common_of(run)}
    return {scope: f"{scope}:{digest(store, scope, *shared)}" for scope, shared in common.items()}


def common_of(run: Run) -> dict[Scope, list[Any]]:
    """Return what a run has in common with others of its requester, and of its session, as far as it says.

    >>> from keyturn.core.run import new_run
    >>> common_of(new_run())
    {}
    """
    common: dict[Scope, list[Any]] = {}
    if run.requester is not None:
        common["requester"] = [run.requester]
    names = ([name, run.about.get(name)] for name in ("session_id", "conversation_id"))
    session = next((named for named in names if isinstance(named[1], str)), None)
    if session is not None:  # a session may be named as somebody's conversation is, and as one of another app
        kept = [run.about[STORE]] if STORE in run.about else []
        common["session"] = [[*session, *kept], run.requester]
    return common


_MISSING: dict[Scope, str] = {
    "session": "was begun without a session or a conversation id",
    "requester": "does not say for whom it acts: start it with requester=",
}


def reach_of(grant: Grant | None, run: Run, journal: object) -> str:
    """Return how far a grant reaches that is given in this run; "" for no further than the run itself."""
    if not isinstance(grant, Grant) or grant.scope == "run":
        return ""
    if journal is None:
        raise UserError(f"a grant with scope={grant.scope!r} is kept in a journal: run with journal=")
    reach = reaches_of(run, journal).get(grant.scope)
    if reach is None:
        raise UserError(f"a grant with scope={grant.scope!r} cannot be given: this run {_MISSING[grant.scope]}")
    return reach
