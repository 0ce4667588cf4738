"""Say terms and limits in words for pages: sentences are ours, and what is quoted is data."""

from __future__ import annotations

from ...core.approval import Approval
from ...core.durations import milliseconds
from ...policies.breaker import Breaker
from ...policies.limits import Budget, Rejections
from ...policies.rule import Limit
from ...presenting.clock import span
from ...presenting.terms import terms_of
from ...render.escape import quote
from .shown import VisibleHtml, ready


def terms_words(terms: Approval | None) -> list[VisibleHtml]:
    """Return the terms of an approval in sentences; none for terms that limit nothing.

    >>> [str(each) for each in terms_words(Approval(role="ops", expires="4h"))]
    ['approval from role &#34;ops&#34;', 'rejected after 4 h without a decision']
    """
    return [] if terms is None else [ready(each.text) for each in terms_of(terms)]


def limit_words(limit: Limit | None) -> VisibleHtml | None:
    """Return a limit in words; None where there is none.

    >>> from keyturn.policies.limits import Calls
    >>> print(limit_words(Calls(20, per="1h", of="requester")))
    once there were more than 20 calls in 1 h, of all runs of the same requester
    """
    if limit is None:
        return None
    if isinstance(limit, Rejections):
        what = "call with these arguments" if limit.same == "call" else "tool"
        return ready(f"once this {what} was rejected {limit.most} times")
    if isinstance(limit, Breaker):
        per = span(milliseconds(limit.per))
        whose = "in the run" if limit.of == "run" else f"of all runs of the same {limit.of}"
        return ready(f"once {limit.most} calls were {', '.join(limit.after)} in {per}, {whose}, until that is over")
    during = "" if limit.per is None else f" in {span(milliseconds(limit.per))}"
    whose = "in the run" if limit.of == "run" else f"of all runs of the same {limit.of}"
    if isinstance(limit, Budget):
        return ready(f"once the sum of {quote(limit.argument)} is over {limit.most}{during}, {whose}")
    return ready(f"once there were more than {limit.most} calls{during}, {whose}")
