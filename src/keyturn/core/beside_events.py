"""The events beside decisions: marks, looks, withdrawals, reviews and drills, and the hold of an external caller.

They decide nothing by themselves. What follows from one of them, such as a call that asks anew, is an event of its own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .people import Decider
from .records import Decision

Mark = Literal["claim", "snooze"]
ReviewWhy = Literal["glass", "sample"]
ReviewWord = Literal["right", "wrong"]


class BesideEvent(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="e", gc=False):
    """The base of these events."""


class CallMarked(BesideEvent, frozen=True):
    """Somebody marked a request for others or for themselves; a mark restricts nobody.

    "claim" says that they are on it, "snooze" that they do not want to see it, each until a time; without one the mark
    is taken off. `digest` is of the request as it was shown; earlier versions did not write it.
    """

    call: str
    mark: Mark
    decider: Decider
    until: int | None = None
    digest: str = ""
    once: str = ""  # the digest of the name under which it is marked once


class CallHeld(BesideEvent, frozen=True):
    """The external caller that executes a call holds it until a later time."""

    call: str
    until: int


class CallLooked(BesideEvent, frozen=True):
    """Somebody who is known for sure had a request on the screen for the first time, as it is asked now.

    `digest` is of the request as it was shown; earlier versions did not write it.
    """

    call: str
    decider: Decider
    digest: str = ""


class ReviewAsked(BesideEvent, frozen=True):
    """Others are asked whether a call was rightly let run; whatever they say, the call stays as it is.

    `why` says whether the glass was broken for it or it is one of a sample, `deciders` on whose word it was let run,
    who are asked nothing.
    """

    call: str
    why: ReviewWhy
    deciders: tuple[str, ...] = ()


class ReviewGiven(BesideEvent, frozen=True):
    """Somebody who did not decide a call said whether it was rightly let run; the run may be over by then."""

    call: str
    verdict: ReviewWord
    digest: str
    decider: Decider
    note: str | None = None


class VoteWithdrawn(BesideEvent, frozen=True):
    """An approver withdrew their own vote while the request was open, or a requester their confirmation."""

    decision: Decision
    once: str = ""  # the digest of the name under which it is withdrawn once


class ApprovalWithdrawn(BesideEvent, frozen=True):
    """Somebody took back what let a call run that had not started; it asks anew, or is in doubt, in the same step."""

    call: str
    decider: Decider
    note: str | None = None
    once: str = ""  # the digest of the name under which it is taken back once


class DrillEnded(BesideEvent, frozen=True):
    """A drill was answered, or its time was up: nothing of it runs, whatever the decision says, and its run is over.

    `passed` says whether somebody saw that it must not run; of one that nobody answered it is None. `grants` counts the
    standing decisions that came along and were dropped.
    """

    decision: Decision
    passed: bool | None = None
    grants: int = 0
