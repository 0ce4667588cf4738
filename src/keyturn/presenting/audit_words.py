"""Word the entries of the audit log for people: what happened in one phrase, and what a grant covers.

One table for the rows of a page and for what they are filtered by.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

from ..render.verdicts import STATES
from .grant_words import covered_words, reach_words

_DID = {
    "revoke": "grant revoked",
    "cancel": "run cancelled",
    "withdraw": "vote withdrawn",
    "undo": "approval withdrawn",
}
_BEFORE = {"vote": "vote: ", "verdict": "policy: ", "recheck": "policy checked again: "}


def recorded_words(what: str, verdict: str, *, lines: bool = False) -> str:
    """Return what an entry says happened; in a list of all `lines`, a verdict of a policy reads as one.

    >>> recorded_words("decision", "approve"), recorded_words("vote", "approve"), recorded_words("grant", "approve")
    ('approved', 'vote: approved', 'grant created')
    >>> recorded_words("verdict", "allow"), recorded_words("verdict", "allow", lines=True)
    ('allowed without a decision', 'policy: may run')
    """
    if what == "verdict" and verdict == "allow" and not lines:
        return "allowed without a decision"
    if what == "grant":
        return "grant created" if verdict != "reject" else "standing rejection created"
    word = _DID.get(verdict, STATES.get(verdict, verdict))
    return f"{_BEFORE.get(what, '')}{word}"


def decider_words(what: str, by: str = "", via: str = "") -> str:
    """Return who or what decided an entry: a user, a rule of a policy, a grant by the start of its id, the deadline.

    >>> decider_words("verdict", "policy:large"), decider_words("decision", via="clock")
    ('policy rule large', 'the deadline')
    >>> decider_words("verdict", "grant:92f4b23ad9a9152d30305597c0176e78@r/1.0")
    'grant 92f4b23a'
    """
    if what in ("verdict", "recheck"):
        kind, _, name = by.partition(":")
        return f"grant {name[:8]}" if kind == "grant" and name else by.replace("policy:", "policy rule ")
    return "the deadline" if via == "clock" else by


class GrantLimits(NamedTuple):
    """Says what a grant covers, until when in milliseconds, for how many calls, and in which runs.

    None is for what has no limit, and "" for what an entry of an earlier version does not say.
    """

    covers: str
    expires_at: int | None
    uses: int | None
    runs: str = ""


def limits_of(granted: str) -> GrantLimits | None:
    """Return what an entry says of a grant; None where it says nothing that can be read.

    >>> limits_of('{"scope": "agent", "uses": 3, "where": {"to": "ada"}}')
    GrantLimits(covers='arguments where to is "ada"', expires_at=None, uses=3, runs='every run of this agent')
    """
    try:
        read: Any = json.loads(granted or "null")
    except ValueError:
        return None
    if not isinstance(read, dict):
        return None
    told = cast("dict[str, Any]", read)
    runs = reach_words(str(told["scope"])).name if "scope" in told else ""
    return GrantLimits(covered_words(told.get("where")), told.get("expires_at"), told.get("uses"), runs)
