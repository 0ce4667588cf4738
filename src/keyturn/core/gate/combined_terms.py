"""Compare and combine terms: those of two policies that both ask, and those of a request that escalated.

What is combined requires whatever either of the two requires. Two sets of people cannot be stated as one, so such
terms have no combination, and the call must not be asked on half of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

from msgspec.structs import replace

from ..approval import Approval, Reason
from ..durations import milliseconds
from ..errors import UserError

#: Why a call is denied about which two policies ask different people.
NOT_COMBINED = "the policies ask different people about this call, and one decision cannot meet both sets of terms"

_REASONS: tuple[Reason, ...] = ("optional", "on_reject", "required")


def escalated_from(stated: Approval, asked: Approval | None) -> bool:
    """Return whether the terms on which a call asks are the stated ones after they escalated.

    >>> terms = Approval(expires="1h", on_expiry="escalate", escalate_to=["ann"])
    >>> escalated_from(terms, terms.escalated()), escalated_from(terms, terms)
    (True, False)
    """
    return stated.on_expiry == "escalate" and asked == stated.escalated()


def combined(outer: Approval, inner: Approval) -> Approval | None:
    """Return terms that meet both, or None where no such terms can be stated.

    The request expires as the shorter of the two says, and is pending no longer than either of them says: it is asked
    again, or escalates, only as long as the other one would let the same people decide. Of a chain and other terms that
    name people, those are met in the last step that can meet them, else in one of their own after the others; two
    chains are one after the other.

    >>> combined(Approval(expires="4h"), Approval(role="ops", quorum=2))
    Approval(role='ops', users=(), quorum=2, deny_quorum=1, not_requester=False, reason='optional', expires='4h', \
on_expiry='reject', max_asks=3, warn_before=None, escalate_to=(), execute_by=None, step_up=False, signed=False, \
confirm=False, break_glass=None, min_look=None, steps=None, then=None)
    >>> combined(Approval(role="ops"), Approval(role="finance")) is None
    True
    """
    if outer.then is not None or inner.then is not None:
        return _chained(outer, inner)
    both = (outer, inner)
    people = _people(outer, inner)
    if people is None:
        return None
    sooner, later = sorted(both, key=lambda terms: inf if terms.expires_ms is None else terms.expires_ms)
    try:
        return Approval(
            **people,
            **_expiry(sooner, later),
            quorum=max(terms.quorum for terms in both),
            deny_quorum=max(terms.deny_quorum for terms in both),
            not_requester=outer.not_requester or inner.not_requester,
            reason=_REASONS[max(_REASONS.index(terms.reason) for terms in both)],
            execute_by=_shortest(terms.execute_by for terms in both),
            step_up=outer.step_up or inner.step_up,
            signed=outer.signed or inner.signed,
            confirm=outer.confirm or inner.confirm,
            break_glass=_glass(outer, inner),
            min_look=max((terms.min_look for terms in both if terms.min_look), key=milliseconds, default=None),
        )
    except UserError:  # a quorum that these people cannot reach, say
        return None


def beside(own: Approval, stated: Approval) -> Approval | None:
    """Return a policy's terms beside a tool's own, None where they cannot both be met; the policy's approvers decide.

    Whether those are whom the tool names is verified before the start.

    >>> beside(Approval(quorum=2), Approval(users=["ann"])) is None
    True
    """
    if own.then is not None or stated.then is not None:
        return combined(own, stated)
    named = own if stated.role is None and not stated.users else stated
    people: dict[str, Any] = {"role": named.role, "users": named.users}
    glass = own.break_glass if own.break_glass == stated.break_glass else None
    try:
        return combined(replace(own, **people), replace(stated, **people, break_glass=glass))
    except UserError:  # so many people are not named
        return None


def _chained(outer: Approval, inner: Approval) -> Approval | None:
    """Return a chain that meets both, of which one is a chain at least."""
    if outer == inner:
        return outer
    try:
        if outer.then is None or inner.then is None:
            chain, other = (inner, outer) if outer.then is None else (outer, inner)
            steps = _beside_steps(chain.in_turn, other)
        else:
            steps = [*outer.in_turn, *inner.in_turn]
        glass = {step.break_glass for step in steps}
        shared: dict[str, Any] = {"break_glass": glass.pop() if len(glass) == 1 else None, "execute_by": None}
        last = replace(steps[-1], **shared | {"execute_by": _shortest(step.execute_by for step in steps)})
        return Approval(steps=(*(replace(step, **shared) for step in steps[:-1]), last))
    except UserError:
        return None


def _beside_steps(steps: Sequence[Approval], other: Approval) -> list[Approval]:
    """Return the steps of a chain that meet other terms as well: in each of them, in the last that can, or after."""
    met = [combined(step, other) for step in steps]
    if not other.needs_people and None not in met:
        return [step for step in met if step is not None]
    for place, step in reversed(list(enumerate(met))):
        if step is not None and not step.in_two_steps:
            return [*steps[:place], step, *steps[place + 1 :]]
    return [*steps, other]


def _people(outer: Approval, inner: Approval) -> dict[str, Any] | None:
    """Return whom both name; a list of users is narrowed to those on the other list."""
    named = [terms for terms in (outer, inner) if terms.role is not None or terms.users]
    if not named:
        return {}
    first = named[0]
    last = named[-1]
    if (first.role, set(first.users)) == (last.role, set(last.users)):
        return {"role": first.role, "users": first.users}
    common = tuple(user for user in first.users if user in last.users)
    return {"users": common} if common and first.role is last.role is None else None


def _expiry(sooner: Approval, later: Approval) -> dict[str, Any]:
    """Return the deadline of the sooner terms, and what follows it for as long as both let the same people decide."""
    taken: dict[str, Any] = {name: getattr(sooner, name) for name in ("expires", "warn_before", "max_asks")}
    times = inf if later.expires_ms is None else later.expires_ms // (sooner.expires_ms or 1)
    if sooner.on_expiry == "ask_again":
        times *= later.max_asks if later.on_expiry == "ask_again" else 1
        return taken | ({"on_expiry": "ask_again", "max_asks": min(times, sooner.max_asks)} if times > 1 else {})
    same = all(getattr(sooner, each) == getattr(later, each) for each in ("expires_ms", "on_expiry", "escalate_to"))
    if sooner.on_expiry == "escalate" and (same or (times > 1 and not later.limits_deciders)):
        return taken | {"on_expiry": "escalate", "escalate_to": sooner.escalate_to}
    return taken


def _glass(outer: Approval, inner: Approval) -> str | None:
    """Return which role may approve alone: one that every set of terms with deciders of its own says."""
    named = [each for each in (outer, inner) if each.four_eyes or each.confirm or each.on_expiry == "escalate"]
    roles = {terms.break_glass for terms in named}
    return roles.pop() if len(roles) == 1 else None


def _shortest(durations: Iterable[str | float | None]) -> str | float | None:
    return min((each for each in durations if each is not None), key=milliseconds, default=None)
