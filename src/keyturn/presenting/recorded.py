"""Say what a decision came to: what was recorded, who is still needed, and what happens next; alike on every face."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.policy import Approval
from ..core.request import Request
from .asking import approvals
from .terms import people_of

#: How many approvers are named; of more, it says how many there are.
NAMED = 4


def missing(request: Request) -> int:
    """Return how many approvals an open request still requires."""
    terms = request.terms_now or Approval()
    return max(terms.quorum - approvals(request), 0)


def still_needed(request: Request, people: Sequence[str] = ()) -> str:
    """Say who has to approve an open request before it runs; `people` are those who can, by name.

    >>> from datetime import UTC, datetime
    >>> asked = Request("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", datetime(2026, 11, 2, tzinfo=UTC))
    >>> still_needed(asked, ["gus", "hana"])
    'One approval from any signed-in user is needed: gus, hana.'
    """
    left = missing(request)
    more = " more" if request.votes else ""
    count = f"One{more} approval" if left == 1 else f"{left}{more} approvals"
    from_whom = people_of(request.terms_now or Approval())
    return f"{count} from {from_whom} {'is' if left == 1 else 'are'} needed{_names(people)}."


def _names(people: Sequence[str]) -> str:
    named, others = people[:NAMED], len(people) - NAMED
    if not named:
        return ""
    return f": {', '.join(named)}{f' and {others} more' if others > 0 else ''}"
