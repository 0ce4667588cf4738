"""Judge what lets a call run by the terms that its tool states now, where those are others than the call asked on.

The terms on record are the gate's: a decision met them before it was taken. Who says which terms are the newest is not
known here.
"""

from __future__ import annotations

from ..policy import Approval
from ..records import BY_GRANT
from ..run import Call, Run, let_by
from .deciding import meets
from .grants import covers


def meets_now(run: Run, call: Call, terms: Approval) -> bool:
    """Return whether what lets a call run meets terms that its tool states since it asked, time limits included."""
    decision = let_by(call)
    if decision is None:
        grant = run.grants.get(call.by.removeprefix(BY_GRANT)) if call.by.startswith(BY_GRANT) else None
        return grant is not None and covers(run, grant, call, terms)
    over = terms.expires_ms is not None and decision.at > call.asked_at + terms.expires_ms
    old = terms.execute_by_ms is not None and run.now > decision.at + terms.execute_by_ms
    return not old and not (over and decision.verdict in ("approve", "edit")) and meets(run, call, terms)
