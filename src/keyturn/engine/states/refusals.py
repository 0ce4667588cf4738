"""Find which undelivered decisions a run refuses as it stands now: one by one, on a copy of the run.

A delivery is recorded whole or not at all. Where one word of it is refused, only that word is dropped, so that the
decisions beside it are good for the next resume. Nothing is recorded here.
"""

from __future__ import annotations

from ...core.decide import step
from ...core.errors import KeyturnError
from ...core.run import Run, twin
from ..driving.drive import Drive
from .undelivered import UndeliveredDecisions


def refused(drive: Drive, said: UndeliveredDecisions) -> UndeliveredDecisions:
    """Find which decisions in `said` the run refuses as it stands now."""
    run, now = twin(drive.run), drive.clock()
    calls = {call for call in said.decisions if not _counts(run, said.only(call), now)}
    revoked = {
        grant: by
        for grant, by in said.revoked.items()
        if not _counts(run, UndeliveredDecisions(revoked={grant: by}), now)
    }
    return UndeliveredDecisions(
        {call: decision for call, decision in said.decisions.items() if call in calls},
        {call: grant for call, grant in said.grants.items() if call in calls},
        [decision for decision in said.replaced if decision.call in calls],
        revoked=revoked,
    )


def _counts(run: Run, said: UndeliveredDecisions, now: int) -> bool:
    try:
        for command in said.commands():
            step(run, command, now)
    except KeyturnError:
        return False
    return True
