"""Word a verdict: the one table of what became of a call or a request, for pages, terminals, chat, messages and audit.

A decision that asks the agent back is recorded as a rejection, since nothing runs; people are shown the question that
it is. What is here is ours, and needs no escaping.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import LiteralString, NamedTuple, Protocol

from ..core.events import CallAskedAgain, CallVoided, Step


class VerdictWords(NamedTuple):
    """Words one verdict: as a state of a request, and as what happened to a call."""

    state: LiteralString
    happened: LiteralString


#: By the verdict of a decision, a review or a policy, or by the state of a request.
VERDICTS: dict[str, VerdictWords] = {
    "open": VerdictWords("pending", "is pending"),
    "approve": VerdictWords("approved", "is approved"),
    "edit": VerdictWords("approved with other arguments", "is approved with other arguments"),
    "reject": VerdictWords("rejected", "is rejected"),
    "answer": VerdictWords("answered", "is answered"),
    "asked_back": VerdictWords("asked back", "is not decided: the agent is asked a question"),
    "ran": VerdictWords("resolved: it ran", "is resolved: it ran"),
    "did_not_run": VerdictWords("resolved: it did not run", "is resolved: it did not run"),
    "retry": VerdictWords("resolved: run again", "is resolved: run again"),
    "right": VerdictWords("reviewed as right", "is reviewed as right"),
    "wrong": VerdictWords("reviewed as wrong", "is reviewed as wrong"),
    "expire": VerdictWords("expired", "expired"),
    "drill_passed": VerdictWords("drill passed", "was a drill, passed"),
    "drill_failed": VerdictWords("drill failed, nothing ran", "was a drill, approved; nothing ran"),
    "withdraw": VerdictWords("withdrew a vote", "has a vote withdrawn"),
    "undo": VerdictWords("approval withdrawn", "has its approval withdrawn"),
    "void": VerdictWords("withdrawn", "is withdrawn"),
    "damaged": VerdictWords("damaged", "is damaged"),
    "allow": VerdictWords("may run", "may run"),
    "ask": VerdictWords("requires approval", "requires approval"),
    "deny": VerdictWords("denied", "is denied"),
    "upheld": VerdictWords("approval upheld", "was checked again after the decision, which is upheld"),
    "more": VerdictWords("more is required", "was checked again after the decision, and the policy requires more"),
}
#: The same as states alone.
STATES: dict[str, LiteralString] = {name: words.state for name, words in VERDICTS.items()}
#: What votes are counted as, by their verdict.
_VOTES: dict[str, LiteralString] = {
    "approve": "approvals",
    "edit": "approvals",
    "reject": "rejections",
    "answer": "answers",
    "retry": "approvals of another run",
}


class WordedDecision(Protocol):
    """What is worded of a decision."""

    @property
    def verdict(self) -> str:
        """Return what was decided, in the log's word."""
        ...

    @property
    def asks_back(self) -> bool:
        """Return whether it asks the agent a question."""
        ...


def verdict_of(decision: WordedDecision) -> str:
    """Return the verdict of a decision as people are shown it: a question is not a rejection."""
    return "asked_back" if decision.asks_back else decision.verdict


def asks_more(step: Step, call: str) -> bool:
    """Return whether a step asks anew about a call, since its decision does not meet what the policy requires now."""
    return any(isinstance(event, CallVoided | CallAskedAgain) and event.call == call for event in step.events)


def rechecked(action: str, *, met: bool) -> str:
    """Return what the policy's recheck of a decision comes to; one that asks again for what was met changes nothing.

    >>> rechecked("ask", met=True), rechecked("ask", met=False), rechecked("deny", met=True)
    ('upheld', 'more', 'deny')
    """
    return action if action == "deny" else "upheld" if met or action == "allow" else "more"


def votes_alike(verdict: str, votes: Collection[str]) -> int:
    """Count the votes that are for the same as a verdict; an approval with other arguments is an approval.

    >>> votes_alike("approve", ["edit", "answer", "reject"])
    1
    """
    return sum(_VOTES.get(vote) == _VOTES.get(verdict) for vote in votes)


def vote_words(verdict: str, votes: Collection[str], needed: int) -> str:
    """Word a vote by how many of how many there are now.

    >>> vote_words("approve", ["approve"], 2), vote_words("reject", ["approve", "reject"], 1)
    ('1 of 2 approvals', '1 of 1 rejections')
    """
    words = f"{votes_alike(verdict, votes)} of {needed} {_VOTES.get(verdict, 'votes')}"
    return f"{words}, with other arguments" if verdict == "edit" else words


def takes_two(risk: str) -> bool:
    """Return whether an approval of a call of this risk takes two presses: a high one, or one in another word.

    >>> [takes_two(risk) for risk in ("", "low", "critical", "enormous")]
    [False, False, True, True]
    """
    return risk not in ("", "low", "medium")
