"""What is known of a run and its calls from the lines of its log, and of what people said: no rule, only facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from keyturn.core import events as ev
from keyturn.core.approval import Approval


@dataclass
class Word:
    """What a person said of a call, as they said it."""

    by: str
    verdict: str
    digest: str
    args: str | None = None
    at: int = 0

    def fits(self, made: ev.Decision) -> bool:
        """Whether a recorded decision says this."""
        return (self.by, self.verdict, self.digest) == (made.by, made.verdict, made.digest)


@dataclass(frozen=True)
class Permit:
    """What one recorded start lets run, and what had let it start, and which process recorded it."""

    args: str
    licence: str
    decision: ev.Decision | None
    tool: str
    process: str = ""
    retry: ev.Decision | None = None


@dataclass
class Seen:
    """One call as its log tells it.

    `terms` are those on which it was last asked, `screened_by` is the process that recorded its first verdict,
    `troubles` when troubles of its tool were, of those on record when it was proposed; `watched` says that a breaker of
    all runs is to be told of its own.
    `retry` is the last word of a person to try it again. `review_role` is the role that a review of it requires.
    `claimed_by` is the caller outside that has it until `held`; its word is `spent` then.
    `let_at` is when the last word was said that lets it start, or go on. Of a chain of approvals `steps` are the terms
    of each step as they were stated, and `met` the words that met those before the one that is due.
    """

    id: str
    agent: str
    tool: str
    args: str
    recover: str
    key: str = ""
    permits: list[Permit] = field(default_factory=list[Permit])
    acted: int = 0
    retries: int = 0
    licence: str = ""
    legitimate: str | None = None
    taken_back: bool = False
    decision: ev.Decision | None = None
    retry: ev.Decision | None = None
    doubtful: bool = False
    until: int | None = None
    wait: int | None = None
    restored: bool = False
    unasked: bool = False
    name: str = ""
    label: str = ""
    terms: Approval | None = None
    screened_by: str = ""
    ungated: bool = False
    troubles: list[int] = field(default_factory=list[int])
    started: bool = False
    review_without: tuple[str, ...] | None = None
    review_role: str = ""
    watched: bool = False
    let_at: int = 0
    steps: tuple[Approval, ...] = ()
    met: list[ev.Decision] = field(default_factory=list[ev.Decision])
    spent: bool = False
    claimed_by: str = ""
    held: int = 0


@dataclass
class RunSeen:
    """One run as its log tells it. `copying` says that its lines so far are those of another run.

    `told_session` says that some of it is in its session, `retells` that it is a fork of one of which nothing was.
    A log that `counts` tells when calls of other runs were in trouble: `told_of` has which, `told` has when. `to_tell`
    are calls of this run of which such a log is to be told, `reviews` what was said of calls that ran, and by whom.
    `account` asks for the call of a run from outside, `reported` are the outcomes it reported; `homes` has where grants
    are from that the run borrowed.
    """

    id: str = ""
    salt: str = ""
    now: int = 0
    over: bool = False
    ended: str = ""
    inputs: int = 0
    withdrawn: int = 0
    agents: dict[str, str] = field(default_factory=dict[str, str])
    turns: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, Seen] = field(default_factory=dict[str, Seen])
    by_key: dict[str, Seen] = field(default_factory=dict[str, Seen])
    grants: dict[str, ev.GrantTerms] = field(default_factory=dict[str, ev.GrantTerms])
    decisions: list[ev.Decision] = field(default_factory=list[ev.Decision])
    raws: dict[str, Any] = field(default_factory=dict[str, Any])
    input: str = ""
    session: str = ""
    queued: bool = False
    failed: bool = False
    aside: bool = False
    drill: bool = False
    copying: bool = False
    told_session: bool = False
    retells: bool = False
    opened: int = 0
    counts: bool = False
    told_of: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    told: list[int] = field(default_factory=list[int])
    to_tell: set[str] = field(default_factory=set[str])
    reviews: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    troubles: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    account: str = ""
    reported: set[str] = field(default_factory=set[str])
    homes: dict[str, str] = field(default_factory=dict[str, str])
