"""Verdicts and the terms of an approval: what a policy may say of a call.

Verdicts are facts once recorded: nothing here asks a policy or knows the time. What is wrong is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Protocol, cast

import msgspec
from msgspec.structs import force_setattr

from .approval import Approval
from .errors import KeyturnError, UserError
from .immutable import immutable

Action = Literal["allow", "ask", "deny"]
Trouble = Literal["rejected", "denied", "failed"]  # what became of a call that did not go well
#: How the word on who denied a call ends if that was a circuit breaker: what it denies does not keep it open.
BY_BREAKER = ":breaker"
STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}


@immutable
class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """Holds what a tool's own setting or a policy says of one call.

    With `stop`, a denial ends the drive of its run as well. `review` is the share of what it, or a grant under it, lets
    run unasked that people are asked to look at afterwards.

    >>> Verdict("ask", reason="over the limit").action
    'ask'
    """

    action: Action
    reason: str = ""
    terms: Approval | None = None
    by: str = ""
    stop: bool = False
    review: float = 0.0

    def __post_init__(self) -> None:
        action, reason, terms, by = cast("tuple[object, ...]", (self.action, self.reason, self.terms, self.by))
        if not isinstance(action, str) or action not in STRICTNESS:
            raise UserError(f"a verdict is 'allow', 'ask' or 'deny', not {action!r}")
        if not isinstance(reason, str) or not isinstance(by, str) or not isinstance(terms, Approval | None):
            raise UserError("a verdict has a text as its reason and its by, and an Approval(...) or None as its terms")
        force_setattr(self, "review", float(check_share("review", self.review)))
        if self.review and action == "deny":
            raise UserError("review= goes with 'allow' and 'ask': what is denied did not run")
        if not isinstance(cast("object", self.stop), bool) or (self.stop and action != "deny"):
            raise UserError("stop is True or False, and goes with 'deny': no run is stopped over a call that may run")


def check_share(field: str, share: object) -> float:
    """Return a share of calls, or raise `UserError` for what is none.

    >>> check_share("review", 0.05)
    0.05
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise UserError(f"{field}= is a share from 0 to 1, such as 0.05 for every twentieth call; not {share!r}")
    return share


ALLOW = Verdict("allow")


class StoppedByPolicy(KeyturnError):
    """Raised where the run's policy denied a call and stops the run with it; what ran is recorded.

    >>> StoppedByPolicy("pay", "rejected 3 times").tool_name
    'pay'
    """

    def __init__(self, tool_name: str, reason: str) -> None:
        self.tool_name = tool_name
        self.reason = reason
        super().__init__(
            f"the policy denied a call of {tool_name!r} and stopped the run: {reason or 'it gives no reason'}; "
            "the call did not run, and nothing else is lost: resume the run to go on, the model is told of the denial"
        )


class Share(NamedTuple):
    """Says what a call takes of a limit that several runs share.

    `name` is the limit's; `of` says whose calls it counts: those of one "session", "requester", "agent" or "tenant". No
    two limits with the same three share a count. `most` is what the sum may come to. With `after`, a call is counted
    not when it is let run, but when one of these things becomes of it.

    >>> Share("5e1f", "requester", 3_600_000, Fraction(5), Fraction(100)).key
    ('5e1f', 'requester', 3600000)
    """

    name: str
    of: str
    per_ms: int | None
    amount: Fraction
    most: Fraction
    after: tuple[Trouble, ...] = ()

    @property
    def key(self) -> tuple[str, str, int | None]:
        """Return what tells this limit from others."""
        return (self.name, self.of, self.per_ms)


class Past(Protocol):
    """What a run recorded before a call: the calls that were let run, and those that were rejected.

    A call that was let run counts from then on, whether or not it has started; one that is known not to have run does
    not count. What is still asked about does not count either.
    """

    def ran(self, since: int | None = None) -> Iterator[CallView]:
        """Return the other calls that were let run, the latest first; `since` is a time in milliseconds."""
        ...

    def rejected(self) -> Iterator[CallView]:
        """Return the calls that were rejected, the latest first."""
        ...

    def total(
        self, of: object, measure: Callable[[CallView], Fraction | int], since: int | None = None
    ) -> Fraction | int:
        """Return the sum of a measure over `ran(since)`, cached for `of`."""
        ...

    def rejections(self, of: object, key: Callable[[CallView], Hashable], wanted: Hashable) -> int:
        """Return how many calls of `rejected()` have a key, cached for `of`."""
        ...

    def shared(self, share: Share) -> Fraction | None:
        """Return what other calls, of all runs that share a limit, are counted for; None where nobody knows."""
        ...

    def troubled(self, after: Sequence[Trouble], since: int) -> Iterator[CallView]:
        """Return the calls of the run of which one of these things became since a time, each with the time of that."""
        ...

    def shared_times(self, share: Share) -> list[int] | None:
        """Return when such things became of calls of all runs that share a count; None where nobody knows."""
        ...


@immutable
class CallView(msgspec.Struct, frozen=True):
    """Holds what a policy may look at: the call that will run, never a live object of the run.

    `agent` is the agent's name and `path` its path from the root agent, which ends in the server of the tool where an
    external caller states one; `params` are the validated arguments that will
    run; `at` is the time in milliseconds; `read_only` says that the tool changes nothing, as it states; `secrets` which
    arguments nobody is shown; `approved` that a person decided for the call already, so that only a denial, or terms
    that the decision does not meet, change anything. `past` is there for a policy whose attribute `counts` is True: its
    calls are then screened one by one. `offered` is the name of the server that offers the tool, if it offers several;
    `terms` are those on which the tool itself asks.

    >>> CallView("pay", "function", "desk/billing", {"amount": 5}, digest="5e1f", call_id="call_1").risk is None
    True
    """

    tool: str
    kind: str
    agent: str
    params: Any
    digest: str
    call_id: str
    risk: str | None = None
    run_id: str = ""
    path: str = ""
    at: int = 0
    approved: bool = False
    past: Past | None = None
    read_only: bool = False
    secrets: tuple[str, ...] = ()
    offered: str = ""
    terms: Approval | None = None
