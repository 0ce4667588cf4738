"""The seam to a policy, which is asked about one call and says allow, ask or deny, or nothing.

A policy looks at the call that will run and at the run's context; it neither runs nor changes anything. What it says
is recorded and not asked again, but that a decision is made: then it may only be stricter. If it raises, or answers
anything else, the call asks.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from ..core.policy import Action, CallView, Verdict

Answer = Verdict | Action | None


class PolicyLike(Protocol):
    """Anything that can be called with a call and the run's context, sync or async.

    None leaves the call to the tool's own setting.

    >>> def nothing_on_sundays(call, context):
    ...     return "deny" if context.sunday else None
    >>> policy: PolicyLike = nothing_on_sundays
    """

    def __call__(self, call: CallView, context: Any, /) -> Answer | Awaitable[Answer]: ...
