"""The checker's view of a call, and the digests that its decisions must be bound to, computed with its own code.

The core computes canonical texts and digests with code of its own, to be fast; here the same is done with the standard
library alone, so that a fault there cannot hide itself here.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..core import events as ev
from ..core.approval import Approval
from ..core.items import Item
from ..core.preview import Preview

WAITING = ("asked", "doubt", "asking")


class Broken(Exception):
    """Raised for a promise that a log breaks: which one, and how.

    >>> Broken("I2", "call r/1.0 started twice").invariant
    'I2'
    """

    def __init__(self, invariant: str, what: str) -> None:
        self.invariant, self.what = invariant, what
        super().__init__(f"{invariant}: {what}")


def need(kept: object, invariant: str, what: str) -> None:
    """Raise `Broken` unless a promise was kept.

    >>> need(True, "I1", "never")
    """
    if not kept:
        raise Broken(invariant, what)


def canonical_text(value: object) -> str:
    """Return the one text of a JSON value.

    >>> canonical_text({"b": 1.0, "a": [True, None]})
    '{"a":[true,null],"b":1.0}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def value_of(text: str) -> Any:
    """Return the value of a strict JSON text; raise `Broken` where it has none or two.

    >>> value_of('{"x": 1}')
    {'x': 1}
    """
    try:
        return json.loads(text or "{}", object_pairs_hook=_once, parse_constant=_never)
    except (ValueError, RecursionError):
        raise Broken("I4", "the log records arguments that are not strict JSON") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError
    return made


def _never(_name: str) -> Any:
    raise ValueError


def request_name(salt: str, call_id: str) -> str:
    """Return the id of a call's request, which is also the call's idempotency key."""
    return blake2b(call_id.encode(), key=salt.encode(), digest_size=16).hexdigest()


class AuditedStep(NamedTuple):
    """Holds a step of a chain that is met: its terms, the votes that met it, and since when people looked in it."""

    terms: Approval
    votes: dict[str, ev.Decision]
    looks: dict[str, int]


@dataclass
class AuditedCall:
    """Tracks one call as its log tells it.

    `place` is new, asked, ready, running, doubt (in doubt), asking (its tool needs an answer), dead (it will not run)
    or settled (it has its result). `asks` counts what made earlier words on it void, `rounds` the questions of its
    tool. `must_ask` says that it was proposed anew and nobody decided since, `former_tool` is the digest of its tool
    before that. `renewed` is the nonce of the restore that asked anew. `approval` is the decision that let it run,
    `approved` says that it was approved as it is asked now, `revoked` that what let it run does not any more, `acted`
    that it may have had an effect that is not to be repeated unasked, `doubted` that it was in doubt before,
    `started_at` and `started_by` when and by which process it was started last, `supplied` that its tool's question was
    answered. `allowed_by` and `let_at` are what let it run unasked, and when; `confirmed` is its requester's word,
    after which others decide; `claim` and `snoozes` are the marks that people made on it, `looks` says since when
    each has looked at it, `withdrawn` are the votes on it that were withdrawn. `met` are the steps of its chain
    that are met, and `opened` is how often it had asked anew when the step opened that
    is due. `review` is the share of such calls that others are asked about, `watched` the counts that are told what
    becomes of it. `screened_in` and `renewed_in` are the lines in which it was screened and asked again,
    `stricter_in` the one in which the newest policy asked about its decision.
    """

    id: str
    frame: str
    agent: str
    raw: Item
    proposal: ev.Proposal
    place: str = "new"
    args: str = ""
    must_ask: bool = False
    recheck: bool = False
    terms: Approval | None = None
    asked_at: int = 0
    pended: int = 0
    warned: bool = False
    reason: str = ""
    decision: ev.Decision | None = None
    approval: ev.Decision | None = None
    approved: bool = False
    revoked: bool = False
    acted: bool = False
    doubted: bool = False
    started_at: int = 0
    started_by: str = ""
    supplied: bool = False
    votes: dict[str, ev.Decision] = field(default_factory=dict[str, ev.Decision])
    preview: Preview | None = None
    question: ev.CallNeeds | None = None
    rounds: int = 0
    asks: int = 0
    former_tool: str = ""
    screened_in: int = 0
    renewed_in: int = 0
    renewed: str = ""
    stricter_in: int = 0
    allowed_by: str = ""
    let_at: int = 0
    confirmed: ev.Decision | None = None
    claim: ev.CallMarked | None = None
    snoozes: dict[str, ev.CallMarked] = field(default_factory=dict[str, ev.CallMarked])
    looks: dict[str, int] = field(default_factory=dict[str, int])
    withdrawn: tuple[ev.Decision, ...] = ()
    met: list[AuditedStep] = field(default_factory=list[AuditedStep])
    opened: int = 0
    review: float = 0.0
    watched: tuple[ev.Watch, ...] = ()

    def propose(self, proposal: ev.Proposal) -> None:
        """Reset the call to what the model, or the changed tool, proposes now; earlier decisions are void."""
        self.proposal = proposal
        own: Any = self.raw.get("arguments", "") if proposal.args is None else proposal.args
        refused = proposal.refused is not None
        need(refused or isinstance(own, str), "I4", f"call {self.id} is proposed without the text of what would run")
        self.args = own
        self.place = "settled" if refused else "new"
        self.recheck = self.revoked = self.approved = False
        self.warned = False
        self.unmark()
        self.from_first_step()
        self.votes = {}
        self.decision = self.approval = self.preview = self.question = None
        if not refused:
            value_of(self.args)

    def from_first_step(self) -> None:
        """Have an approval chain begin anew."""
        if self.met:
            self.terms = self.met[0].terms
        self.met = []

    @property
    def stated(self) -> Approval | None:
        """Return the terms on which it was asked: of a chain those of all its steps."""
        return self.met[0].terms if self.met else self.terms

    @property
    def revision(self) -> int:
        """Return how often it was asked, in whatever way."""
        return 1 + self.asks + self.rounds

    def unmark(self) -> None:
        """Drop the marks of what was asked before, and its confirmation."""
        self.claim = self.confirmed = None
        self.snoozes = {}
        self.looks = {}
        self.withdrawn = ()

    def drop_lapsed(self, event: ev.VoteCast | ev.CallDecided) -> None:
        """Forget the votes that an event says to count no more."""
        for name in event.lapsed:
            need(name in self.votes, "I8", f"a vote of {name!r} on call {self.id} is said to have lapsed, and is none")
            del self.votes[name]

    def shape(self) -> str:
        """Return what is equal for calls of one tool with the same arguments, of which people are shown the same."""
        state = {"doubt": "in_doubt", "asking": "needs"}.get(self.place, self.place)
        parts = ["shape", self.proposal.tool, state, self._text(value_of(self.args))]
        if self.preview is not None and self.preview.basis:
            parts.append(self._text(self.preview.basis))
        if self.question is not None:
            parts.append(self._text([self.question.requests, self.question.state]))
        return self._hash(parts)

    def ask_before_acting(self, event: ev.CallNeeds) -> None:
        """Reset the call, which has done nothing yet, to one that asks; what let it start counts no more."""
        if self.edited:
            self.proposal = replace(self.proposal, args=self.args, edited=True)
        self.acted = self.doubted and self.proposal.recover != "retry"
        self.place = "asked"
        self.from_first_step()
        self.terms = self.proposal.terms if self.terms is None else self.terms
        self.preview = event.preview
        self.recheck = self.revoked = self.warned = self.approved = False
        self.decision = self.approval = self.question = None
        self.asks += 1

    def digest(self, run: str) -> str:
        """Return what a decision of this call must be bound to."""
        bound: list[Any] = [value_of(self.args)]
        if self.preview is not None and self.preview.basis:
            bound.append(self.preview.basis)
        if self.asks:
            bound.append(self.asks)
        if self.renewed:
            bound.append(self.renewed)
        if self.question is not None:
            bound.append([self.question.requests, self.question.state, self.rounds])
        return self._sha(run, [self._text(part) for part in bound])

    def edit_digest(self, run: str, args: str, basis: dict[str, str] | None) -> str:
        """Return what an edit of this call must be bound to, from its decision to its start."""
        return self._sha(run, [self.asks, self._text(value_of(args)), basis])

    def _sha(self, run: str, parts: list[Any]) -> str:
        return self._hash([run, self.id, self.agent, self.proposal.tool, *parts])

    def _hash(self, parts: list[Any]) -> str:
        """Hash what is shown, with the key of the call where it has secrets."""
        text, key = self._text(parts).encode(), self.proposal.key.encode()
        return hmac.new(key, text, "sha256").hexdigest() if key else sha256(text).hexdigest()

    def _text(self, value: object) -> str:
        try:
            return canonical_text(value)
        except (ValueError, TypeError, RecursionError):
            raise Broken("I4", f"what call {self.id} would run cannot be written as one canonical text") from None

    @property
    def edited(self) -> bool:
        """Return whether its newest decision carries arguments that a person wrote."""
        return self.decision is not None and self.decision.args is not None

    @property
    def expires_at(self) -> int | None:
        """Return when its request expires; only what waits for approval does."""
        wait = self.terms.expires_ms if self.terms is not None and self.place not in ("doubt", "asking") else None
        return None if wait is None else self.asked_at + wait

    @property
    def warns_at(self) -> int | None:
        """Return when somebody may first be told that its request will expire."""
        ends = self.expires_at
        before = self.terms.warn_before_ms if self.terms is not None else None
        return None if ends is None or before is None else max(ends - before, self.asked_at)
