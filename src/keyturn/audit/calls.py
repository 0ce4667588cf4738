"""A call as the checker knows it, and the digest that its decision must be bound to: nothing of the core's own making.

The core computes canonical texts and digests with its own code, to be fast; here the same is said with the standard
library alone, so that a fault there cannot hide itself here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any

from ..core import events as ev
from ..core.items import Item
from ..core.policy import Approval

WAITING = ("asked", "doubt", "asking")


class Broken(Exception):
    """A promise that a log breaks: which, and how.

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


def canonical_text(value: Any) -> str:
    """The one text of a JSON value.

    >>> canonical_text({"b": 1.0, "a": [True, None]})
    '{"a":[true,null],"b":1.0}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def value_of(text: str) -> Any:
    """The value of a strict JSON text; `Broken` where it has none or two.

    >>> value_of('{"x": 1}')
    {'x': 1}
    """
    try:
        return json.loads(text or "{}", object_pairs_hook=_once, parse_constant=_never)
    except (ValueError, RecursionError):
        raise Broken("I4", "arguments are recorded that are not strict JSON") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError
    return made


def _never(_name: str) -> Any:
    raise ValueError


def request_name(salt: str, call_id: str) -> str:
    """The name of a call's request, which is its idempotency key, too."""
    return blake2b(call_id.encode(), key=salt.encode(), digest_size=16).hexdigest()


@dataclass
class Call:
    """One call as its log tells it.

    `place` is new, asked, ready, running, doubt (in doubt), asking (its tool needs an answer), dead (it will not run)
    or settled (it has its result).
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
    reason: str = ""
    decision: ev.Decision | None = None
    votes: dict[str, ev.Decision] = field(default_factory=dict[str, ev.Decision])
    basis: dict[str, str] = field(default_factory=dict[str, str])
    question: list[Any] = field(default_factory=list[Any])
    rounds: int = 0
    again: int = 0

    def propose(self, proposal: ev.Proposal) -> None:
        """Stand as the model, or the tool that changed, has it now; nothing of what was decided counts any more."""
        self.proposal = proposal
        own: Any = self.raw.get("arguments", "") if proposal.args is None else proposal.args
        refused = proposal.refused is not None
        need(refused or isinstance(own, str), "I4", f"call {self.id} is proposed without the text of what will run")
        self.args, self.place = own, "settled" if refused else "new"
        self.decision, self.recheck, self.votes, self.basis, self.question = None, False, {}, {}, []
        if not refused:
            value_of(self.args)

    def digest(self, run: str) -> str:
        """What a decision of this call must be bound to."""
        try:
            seen = [canonical_text(value_of(self.args))]
            seen += [canonical_text(more) for more in (self.basis, self.again, self.question) if more]
            return sha256(canonical_text([run, self.id, self.agent, self.proposal.tool, *seen]).encode()).hexdigest()
        except (ValueError, TypeError, RecursionError):
            raise Broken("I4", f"what call {self.id} would run cannot be written down in one way") from None

    @property
    def expires_at(self) -> int | None:
        """When a decision comes too late; only what waits for approval runs out."""
        wait = self.terms.expires_ms if self.terms is not None and self.place not in ("doubt", "asking") else None
        return None if wait is None else self.asked_at + wait
