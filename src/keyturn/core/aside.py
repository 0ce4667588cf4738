"""Set aside a run whose holders died while they took it up, and keep it so until a person resumes it.

Nothing of such a run is called by itself: whatever ended its holders would end the next one. How many died is the
journal's to count; that a run is set aside, and who resumed it, is in its log.
"""

from __future__ import annotations

from .errors import Conflict
from .run import Run

#: How many holders in a row may die without a line before a run is set aside.
MOST_LOST = 3


class SetAside(Conflict):
    """Raised where a run is taken up that was set aside; a person resumes it, by name.

    >>> raise SetAside("5e1f")
    Traceback (most recent call last):
    ...
    keyturn.core.aside.SetAside: run '5e1f' is set aside because each worker that claimed it died: find the cause, \
then run `keyturn resume`
    """

    def __init__(self, run: str) -> None:
        super().__init__(
            f"run {run!r} is set aside because each worker that claimed it died: find the cause, then run `keyturn "
            f"resume`"
        )


def why_aside(lost: int) -> str:
    """Return the error that such a run keeps.

    >>> why_aside(3)
    'SetAside: 3 workers died, one after another, while they executed the run'
    """
    return f"SetAside: {lost} workers died, one after another, while they executed the run"


def check_not_aside(run: Run) -> None:
    """Raise `SetAside` where a run was set aside and no person has resumed it."""
    if run.lost:
        raise SetAside(run.id)
