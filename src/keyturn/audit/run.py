"""Hold what is open in one run as its log is read: the one record that all laws of a log look at and change.

Nothing is judged here. What is settled is forgotten, so that what is kept is what is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..core import events as ev
from ..core.approval import Approval
from .calls import AuditedCall, Broken


@dataclass
class AuditedFrame:
    """Tracks an agent at work: its guardrails, its calls, and whose turn it is.

    `phase` is model, calls or judge. `judged` says that the agent looks at the results of its calls before its model.
    `calls` are those of the last reply, or without `barrier` those that are open; `open` counts those without a result.
    """

    agent: str
    guarded: str
    phase: str = "model"
    judged: bool = False
    turn: int = 0
    tripped: bool = False
    barrier: bool = True
    open: int = 0
    calls: dict[str, None] = field(default_factory=dict[str, None])


@dataclass
class AuditedReview:
    """Holds a call as it was when others were asked about it."""

    call: AuditedCall
    why: str
    asked_at: int
    revision: int
    deciders: tuple[str, ...]
    digest: str
    said: ev.ReviewGiven | None = None


@dataclass
class AuditedRun:
    """Holds one run as far as its log was read; `name` is the run that the log is meant to be of.

    `now` is the run's time, the latest of its lines, and `line` the number of the line that is read.
    """

    name: str
    run: str = ""
    now: int = 0
    line: int = 0
    salt: str = ""
    requester: str | None = None
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    root: str = ""
    tools: dict[str, Any] = field(default_factory=dict[str, Any])
    over: bool = False
    #: That it failed, and was not resumed since.
    failed: bool = False
    #: When a drill ends by itself; None for a run that is none.
    drill: int | None = None

    # What is open. `starts` has how often each call was started, those that are settled included.
    calls: dict[str, AuditedCall] = field(default_factory=dict[str, AuditedCall])
    frames: dict[str, AuditedFrame] = field(default_factory=dict[str, AuditedFrame])
    starts: dict[str, int] = field(default_factory=dict[str, int])

    # What the next events must be: the use of a grant, the call that asks anew, the call whose nested agent ended.
    owed: tuple[str, str] | None = None
    withdrawn: str | None = None
    #: The call of whose chain another step is due, and the terms on which it must ask next.
    next_step: tuple[str, Approval] | None = None
    answered: str | None = None
    #: The frames whose model must reply in this line, since a call has its result that the provider runs with that.
    unheard: set[str] = field(default_factory=set[str])
    #: The calls that this line decides; that it must end with the restoring of the run; that it begins a fork.
    decided_now: list[AuditedCall] = field(default_factory=list[AuditedCall])
    restoring: bool = False
    forking: bool = False
    #: The run to which decisions are bound: another one in the lines that a fork copied; the line in which it begins.
    bound_to: str = ""
    forked_in: int = 0

    # Standing decisions. `lent` are those that calls of other runs used, `borrowed` those of other runs, with their
    # homes and the lines that say so, `freed_in` is the line in which a standing rejection ended last, and `never` says
    # of which tool each of those is: its name, its kind and the server that offers it.
    grants: dict[str, ev.GrantTerms] = field(default_factory=dict[str, ev.GrantTerms])
    uses: dict[str, int] = field(default_factory=dict[str, int])
    given_in: dict[str, int] = field(default_factory=dict[str, int])
    lent: dict[tuple[str, str], ev.GrantTerms] = field(default_factory=dict[tuple[str, str], ev.GrantTerms])
    borrowed: list[tuple[ev.GrantTerms, str, int]] = field(default_factory=list[tuple[ev.GrantTerms, str, int]])
    freed_in: int = 0
    never: dict[str, tuple[str, str, str]] = field(default_factory=dict[str, tuple[str, str, str]])

    # Reviews. `due_review` is the one that the next event must ask for. Whether a call of copied lines is of the
    # sample cannot be computed here, and `may_be_drawn` is the one that the next event may ask a review of.
    reviews: dict[str, AuditedReview] = field(default_factory=dict[str, AuditedReview])
    due_review: tuple[str, str, tuple[str, ...]] | None = None
    may_be_drawn: str = ""

    # Limits of several runs. `ever_taken` are the calls that were ever entered here, `counted_in` the logs in which
    # this run says its calls are entered, with the lines that say so, `breakers_notified` the breakers that
    # it says it notified.
    ever_taken: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    counted_in: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    breakers_notified: list[tuple[ev.Watch, str, int]] = field(default_factory=list[tuple[ev.Watch, str, int]])
    to_tell: dict[str, list[ev.Watch]] = field(default_factory=dict[str, list[ev.Watch]])
    parts: dict[tuple[str, str, str], tuple[Fraction, int]] = field(
        default_factory=dict[tuple[str, str, str], tuple[Fraction, int]]
    )
    sum: Fraction = Fraction(0)
    closed: bool = False

    def at(self, name: str) -> AuditedCall:
        """Return a call that is open, or raise `Broken`."""
        call = self.calls.get(name)
        if call is None:
            ran = name in self.starts
            raise Broken("I2" if ran else "I8", f"something happened to call {name}, which is not open")
        return call

    def frame(self, name: str) -> AuditedFrame:
        """Return a frame in which an agent is at work, or raise `Broken`."""
        frame = self.frames.get(name)
        if frame is None:
            raise Broken("I8", f"something happened in {name}, where no agent was at work")
        return frame

    def framed(self, call: str) -> bool:
        """Return whether a nested agent answers a call."""
        return call in self.frames
