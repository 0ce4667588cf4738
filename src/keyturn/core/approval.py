"""State the terms of an approval: who may decide a call, how many of them, until when, and in which steps.

What can never be met is refused as the terms are made. Nothing here knows a call, a person or the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec.structs import force_setattr

from .durations import milliseconds
from .errors import UserError
from .immutable import immutable

_ROLE = "role:"
#: The most steps that an approval chain has.
MOST_STEPS = 50
Reason = Literal["optional", "on_reject", "required"]
OnExpiry = Literal["reject", "escalate", "ask_again"]


@immutable
class Approval(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """States the terms on which a call may be approved: who, how many, until when.

    `expires`, `warn_before` and `execute_by` take durations ("4h", seconds). When a request runs out it is rejected, or
    asked again up to `max_asks` times in all, or escalated once to `escalate_to`: user ids, and "role:NAME" for one
    role. `signed` (and `step_up`) takes a decision signed with the person's own key. With `confirm` the person for whom
    the run acts says yes, and nobody else; with terms for others beside it, first that person and then the others.
    `steps` are the terms of an approval chain, the first step first: each has its own people and its own clock, and
    opens when the one before it is met. They are kept as the terms of the first with the others as its `then`.
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
    steps: tuple[Approval, ...] | None = None
    then: Approval | None = None

    def __post_init__(self) -> None:
        if cast("object", self.steps) is not None:
            _take_steps(self)
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
        if cast("object", self.then) is not None:
            _check_chain(self)

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
    def lasts_ms(self) -> int | None:
        """Return how long what lets a call run stays good, in milliseconds: of a chain its last step says so."""
        return self.execute_by_ms if self.then is None else self.then.lasts_ms

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
    def confirmation_steps(self) -> tuple[Approval, ...]:
        """Return the terms of the confirmation and of the others after it; these terms, where they have only one."""
        return (self.at_step(confirmed=False), self.at_step(confirmed=True)) if self.in_two_steps else (self,)

    @property
    def alone(self) -> Approval:
        """Return the terms of this step, without those of the steps after it."""
        return self if self.then is None else msgspec.structs.replace(self, then=None)

    @property
    def in_turn(self) -> tuple[Approval, ...]:
        """Return the terms of each step of a chain from here on; these terms, where they are no chain.

        >>> [step.role for step in Approval(steps=[Approval(role="manager"), Approval(role="finance")]).in_turn]
        ['manager', 'finance']
        """
        return (self,) if self.then is None else (self.alone, *self.then.in_turn)

    @property
    def takes_proof(self) -> bool:
        """Return whether a decision on one of its steps must be signed."""
        return self.needs_proof or (self.then is not None and self.then.takes_proof)

    @property
    def unsigned(self) -> Approval:
        """Return these terms for somebody of whom it is asked whether they may decide, before they sign."""
        return msgspec.structs.replace(self, signed=False, step_up=False) if self.needs_proof else self

    def behind_glass(self) -> Approval | None:
        """Return the terms for who breaks the glass; None where nobody may.

        >>> Approval(users=["ada"], break_glass="chief").behind_glass().role
        'chief'
        """
        if self.break_glass is None:
            return None
        every = self.in_turn
        others = any(each.not_requester or each.in_two_steps or (each.confirm and len(every) > 1) for each in every)
        looks = max((each.min_look for each in every if each.min_look), key=milliseconds, default=None)
        whole: dict[str, Any] = {"signed": self.takes_proof, "step_up": False, "min_look": looks, "then": None}
        return self._without_others(
            role=self.break_glass, not_requester=others, confirm=False, reason="required", **whole
        )

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


def _take_steps(approval: Approval) -> None:
    """Make of the steps that were given the terms of the first one, and of the others what follows it."""
    given: object = approval.steps
    steps = cast("tuple[Any, ...]", tuple(given) if isinstance(given, list | tuple) else ())
    if len(steps) < 2 or not all(isinstance(step, Approval) for step in steps):
        raise UserError("steps= is a list of two or more Approval(...): write the terms of a single step without it")
    usual = dict(zip(approval.__struct_fields__, approval.__struct_defaults__, strict=True))
    beside = [name for name in usual if name != "steps" and getattr(approval, name) not in (usual[name], [])]
    if beside:
        raise UserError(f"{beside[0]}= goes into the step that it is of: steps=[Approval({beside[0]}=...), ...]")
    if any(step.then is not None for step in steps):
        raise UserError("a step of steps= has steps of its own: write all of them in one list")
    _check_people(steps)
    first, *others = steps
    for name in usual:
        force_setattr(approval, name, getattr(first, name))
    force_setattr(approval, "then", chained(others))


def chained(steps: Sequence[Approval]) -> Approval:
    """Return the terms of steps that follow one another.

    >>> chained([Approval(role="manager"), Approval(role="finance")]).then.role
    'finance'
    """
    return reduce(lambda after, step: msgspec.structs.replace(step, then=after), reversed(steps))


def _check_people(steps: tuple[Approval, ...]) -> None:
    """Refuse steps that name too few users, of whom each counts in one step; those of a role nobody knows here.

    Steps that name as many users as there are votes can always be met. What takes more votes than a chain has steps is
    not looked at: terms come from callers outside as well, and this is quadratic.
    """
    known = [step for step in steps if step.users and step.role is None and not step.escalate_to]
    most = sum(step.quorum for step in known)
    votes = [step.users for step in known if len(set(step.users)) < most for _ in range(min(step.quorum, MOST_STEPS))]
    if len(votes) > MOST_STEPS:
        return
    cast_by = dict[str, int]()  # by user, which of the votes is theirs

    def is_cast(vote: int, tried: set[str]) -> bool:
        for user in [user for user in votes[vote] if user not in tried]:
            tried.add(user)
            if user not in cast_by or is_cast(cast_by[user], tried):
                cast_by[user] = vote
                return True
        return False

    if not all(is_cast(vote, set()) for vote in range(len(votes))):
        raise UserError("steps= names too few users: each of them counts in one step only")


def _check_chain(approval: Approval) -> None:
    """Check a step that another follows: who decides each is known, and what is of the whole stands where it must."""
    then: object = approval.then
    if not isinstance(then, Approval):
        raise UserError("then= is an Approval(...)")
    if not (approval.limits_deciders and then.limits_deciders):
        raise UserError("each step names its approvers: role=, users=, quorum=, not_requester=, confirm= or signed=")
    if approval.in_two_steps or then.in_two_steps:
        raise UserError("confirm= is a step by itself: steps=[Approval(confirm=True), Approval(role=...)]")
    if approval.execute_by is not None:
        raise UserError("execute_by= is counted from the last approval: write it in the last step")
    if _has_more_than(MOST_STEPS, approval):
        raise UserError(f"an approval chain has at most {MOST_STEPS} steps")
    if approval.break_glass != then.break_glass:
        raise UserError("break_glass= overrides the whole chain: name the same role in each of its steps")


def _has_more_than(most: int, terms: Approval | None) -> bool:
    """Return whether a chain has more steps than so many; it is not read further than that."""
    return terms is not None and (not most or _has_more_than(most - 1, terms.then))


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
