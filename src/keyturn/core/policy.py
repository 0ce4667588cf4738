"""Verdicts and the terms of an approval: what a policy may say of a call.

Verdicts are facts once recorded: nothing here asks a policy or knows the time. What is wrong is refused at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

import msgspec
from msgspec.structs import force_setattr

from .errors import KeyturnError, UserError
from .immutable import immutable

Action = Literal["allow", "ask", "deny"]
Trouble = Literal["rejected", "denied", "failed"]  # what became of a call that did not go well
#: How the word on who denied a call ends if that was a circuit breaker: what it denies does not keep it open.
BY_BREAKER = ":breaker"
STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?(ms|s|m|h|d|w)")
_SHORT = 64
_LONGEST = 2 * 10**14  # so that it ends before the last year there is
_ROLE = "role:"


def milliseconds(duration: str | float) -> int:
    """Convert a duration such as "90s", "4h" or "1.5d", or a number of seconds, to milliseconds.

    >>> milliseconds("4h"), milliseconds(0.5)
    (14400000, 500)
    """
    value = _in_milliseconds(duration)
    if value is None:
        raise UserError(f"{duration!r} is not a duration: write a number of seconds, or '90s', '4h', '7d'")
    # Compared before it is rounded: infinity has no integer, and half a millisecond is not zero, it is nothing we keep.
    if not 1 <= value < _LONGEST:
        raise UserError(f"a duration is at least a millisecond and at most some thousand years, not {duration!r}")
    return round(value)


def _in_milliseconds(duration: object) -> float | None:
    if isinstance(duration, str):
        return _read(duration) if len(duration) <= _SHORT else _read.__wrapped__(duration)
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        return None
    return duration * 1_000


@lru_cache(maxsize=256)
def _read(text: str) -> float | None:
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


Reason = Literal["optional", "on_reject", "required"]
OnExpiry = Literal["reject", "escalate", "ask_again"]


@immutable
class Approval(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """States the terms on which a call may be approved: who, how many, until when.

    `expires`, `warn_before` and `execute_by` take durations ("4h", seconds). When a request runs out it is rejected, or
    asked again up to `max_asks` times in all, or escalated once to `escalate_to`: user ids, and "role:NAME" for one
    role. `signed` (and `step_up`) takes a decision signed with the person's own key. With `confirm` the person for whom
    the run acts says yes, and nobody else; with terms for others beside it, first that person and then the others.
    `break_glass` names a role that may approve alone, with a reason. `min_look` ("5s") is how long the request
    must have been on the screen to be approved. Terms that depend on who decides require an inbox, not a bare state.

    >>> Approval(expires="4h").expires_ms
    14400000
    """

    role: str | None = None
    users: tuple[str, ...] = ()
    quorum: int = 1
    deny_quorum: int = 1
    not_requester: bool = False
    reason: Reason = "optional"
    expires: str | float | None = None
    on_expiry: OnExpiry = "reject"
    max_asks: int = 3
    warn_before: str | float | None = None
    escalate_to: tuple[str, ...] = ()
    execute_by: str | float | None = None
    step_up: bool = False
    signed: bool = False
    confirm: bool = False
    break_glass: str | None = None
    min_look: str | float | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "users", _names("users", self.users))
        force_setattr(self, "escalate_to", _names("escalate_to", self.escalate_to))
        _check_types(self)
        _check_quorum(self)
        if self.on_expiry != "reject" and self.expires is None:
            raise UserError(f"on_expiry={self.on_expiry!r} requires expires=")
        if self.on_expiry == "escalate" and not self.escalate_to:
            raise UserError("on_expiry='escalate' requires escalate_to=")
        if len([name for name in self.escalate_to if name.startswith(_ROLE)]) > 1:
            raise UserError("escalate_to= names people and at most one role, as 'role:NAME'")
        self._check_confirm()
        if self.escalate_to:
            self.escalated()  # what those people could never meet is refused now
        if self.warn_before is not None and self.expires is None:
            raise UserError("warn_before= is counted back from expires=, which is missing")

    def _check_confirm(self) -> None:
        if self.break_glass is not None and not (self.four_eyes or self.confirm):
            raise UserError("break_glass= overrides role=, users=, quorum= or confirm=, and these terms have none")
        if self.confirm and not self.four_eyes and self.on_expiry == "escalate":
            raise UserError("with confirm= alone no other user can approve, so there is no one to escalate to")

    @property
    def expires_ms(self) -> int | None:
        """Return how long a decision is waited for, in milliseconds."""
        return None if self.expires is None else milliseconds(self.expires)

    @property
    def execute_by_ms(self) -> int | None:
        """Return how long an approval stays good, in milliseconds."""
        return None if self.execute_by is None else milliseconds(self.execute_by)

    @property
    def warn_before_ms(self) -> int | None:
        """Return how long before its expiry a request is warned of, in milliseconds: a quarter by default."""
        if self.warn_before is not None:
            return milliseconds(self.warn_before)
        return None if self.expires_ms is None else self.expires_ms // 4

    @property
    def min_look_ms(self) -> int | None:
        """Return how long somebody looks before they approve, in milliseconds."""
        return None if self.min_look is None else milliseconds(self.min_look)

    @property
    def needs_proof(self) -> bool:
        """Return whether a decision must be signed with the person's own key."""
        return self.signed or self.step_up

    @property
    def four_eyes(self) -> bool:
        """Return whether it takes somebody in particular, or several, beside whom the run acts for."""
        who = self.role is not None or bool(self.users)
        return who or self.quorum > 1 or self.deny_quorum > 1 or self.not_requester

    @property
    def limits_deciders(self) -> bool:
        """Return whether not just anybody may decide: then only people known for sure count."""
        return self.four_eyes or self.needs_proof or self.confirm

    @property
    def in_two_steps(self) -> bool:
        """Return whether the requester confirms first, and others decide then."""
        return self.confirm and self.four_eyes

    def at_step(self, *, confirmed: bool) -> Approval:
        """Return the terms of the step that is due: those of the confirmation, or of the others after it.

        >>> Approval(confirm=True, role="ops").at_step(confirmed=False).role is None
        True
        """
        if not self.in_two_steps:
            return self
        if confirmed:
            return msgspec.structs.replace(self, confirm=False, not_requester=True)
        return self._without_others(role=None, not_requester=False)

    @property
    def steps(self) -> tuple[Approval, ...]:
        """Return the terms of each step that it takes, the first one first."""
        return (self.at_step(confirmed=False), self.at_step(confirmed=True)) if self.in_two_steps else (self,)

    def behind_glass(self) -> Approval | None:
        """Return the terms for who breaks the glass; None where nobody may.

        >>> Approval(users=["ada"], break_glass="chief").behind_glass().role
        'chief'
        """
        if self.break_glass is None:
            return None
        others = self.not_requester or self.in_two_steps
        return self._without_others(role=self.break_glass, not_requester=others, confirm=False, reason="required")

    def _without_others(self, **more: Any) -> Approval:
        bare: dict[str, Any] = {"users": (), "quorum": 1, "deny_quorum": 1, "break_glass": None}
        return msgspec.structs.replace(self, **bare, on_expiry="reject", escalate_to=(), **more)

    @property
    def needs_people(self) -> bool:
        """Return whether these terms need an inbox with authenticated people, now or when they escalate."""
        return self.limits_deciders or bool(self.escalate_to) or self.min_look is not None

    def escalated(self) -> Approval:
        """Return the terms once nobody answered in time: other people, the same time again, and then it is rejected.

        >>> Approval(expires="1h", on_expiry="escalate", escalate_to=["ann", "role:leads"]).escalated().role
        'leads'
        """
        people = tuple(name for name in self.escalate_to if not name.startswith(_ROLE))
        role = next((name.removeprefix(_ROLE) for name in self.escalate_to if name.startswith(_ROLE)), None)
        return msgspec.structs.replace(self, users=people, role=role, on_expiry="reject", escalate_to=())


def _names(field: str, names: object) -> tuple[str, ...]:
    # A text is a sequence of texts: as `users` it would let in whoever is called like one of its letters.
    if names == [] and field == "users":  # a list that a program computed
        raise UserError("users=[] is empty: name at least one user, or omit users= to allow any approver")
    listed = tuple(cast("list[object]", names)) if isinstance(names, list | tuple) else ("",)
    if not all(isinstance(name, str) and name for name in listed):
        raise UserError(f"{field} is a list of names, none of them empty")
    return cast("tuple[str, ...]", listed)


def _check_types(approval: Approval) -> None:
    for field in ("role", "break_glass"):
        name: object = getattr(approval, field)
        if name is not None and not (isinstance(name, str) and name):
            raise UserError(f"{field} is the name of a role, or None")
    for field in ("not_requester", "step_up", "signed", "confirm"):
        if not isinstance(getattr(approval, field), bool):
            raise UserError(f"{field} is True or False")
    for field, choices in (("reason", get_args(Reason)), ("on_expiry", get_args(OnExpiry))):
        if getattr(approval, field) not in choices:
            raise UserError(f"{field} is one of {', '.join(choices)}, not {getattr(approval, field)!r}")
    for duration in (approval.expires, approval.execute_by, approval.warn_before, approval.min_look):
        if duration is not None:
            milliseconds(duration)


def _check_quorum(approval: Approval) -> None:
    people = None if approval.role is not None or not approval.users else len(set(approval.users))
    for field in ("quorum", "deny_quorum", "max_asks"):
        needed: object = getattr(approval, field)
        if not isinstance(needed, int) or isinstance(needed, bool) or needed < 1:
            raise UserError(f"{field} is a whole number, at least 1, not {needed!r}")
        if people is not None and needed > people and field != "max_asks":
            raise UserError(f"{field}={needed} can never be reached by the {people} listed in users=")


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

    `agent` is the agent's name and `path` its path from the root agent; `params` are the validated arguments that will
    run; `at` is the time in milliseconds; `read_only` says that the tool changes nothing, as it states; `secrets` which
    arguments nobody is shown; `approved` that a person decided for the call already, so that only a denial, or terms
    that the decision does not meet, change anything. `past` is there for a policy whose attribute `counts` is True: its
    calls are then screened one by one. `offered` is the name of the server that offers the tool, if it offers several.

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
