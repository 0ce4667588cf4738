"""Combined terms require whatever either requires, at any time: who, how many, until when, and behind the glass."""

from __future__ import annotations

from random import Random
from typing import Any

from keyturn.core.approval import Approval
from keyturn.core.errors import UserError
from keyturn.core.gate.combined_terms import combined
from keyturn.core.people import Decider, barred

MINUTES = 60_000
ROLES: list[tuple[str, ...]] = [(), ("ops",), ("finance",), ("lead",)]
PEOPLE = [Decider(name, roles=roles, strength="authenticated") for name in ("ann", "bob", "eve") for roles in ROLES]
CHOICES: dict[str, list[Any]] = {
    "role": [None, None, "ops", "finance"],
    "users": [(), (), ("ann",), ("ann", "bob")],
    "quorum": [1, 1, 2],
    "deny_quorum": [1, 1, 2],
    "not_requester": [False, False, True],
    "reason": ["optional", "on_reject", "required"],
    "expires": [None, "30m", "50m", "1h", "2h"],
    "on_expiry": ["reject", "ask_again", "escalate"],
    "max_asks": [1, 2, 3, 20],
    "escalate_to": [(), ("eve",), ("ann", "role:lead")],
    "break_glass": [None, None, "chief", "duty"],
}


def drawn(dice: Random) -> Approval:
    while True:
        try:
            return Approval(**{name: dice.choice(values) for name, values in CHOICES.items()})
        except UserError:
            pass


def terms_at(terms: Approval, at: int) -> Approval | None:
    """The terms on which people decide so long after a call asked; None where it has expired."""
    if terms.expires_ms is None:
        return terms
    times = at // terms.expires_ms
    if terms.on_expiry == "escalate":
        return terms if times < 1 else terms.escalated() if times < 2 else None
    return terms if times < (terms.max_asks if terms.on_expiry == "ask_again" else 1) else None


def loosened(made: Approval, own: Approval) -> str:
    """What terms let happen at one time that others, which they are made of, do not."""
    if made.quorum < own.quorum or made.deny_quorum < own.deny_quorum:
        return "fewer decide"
    if any(barred(own, who, "gus") and not barred(made, who, "gus") for who in PEOPLE):
        return "others decide"
    glass, known = made.behind_glass(), own.behind_glass()
    if glass is None or not own.four_eyes:
        return ""
    same = known is not None and known.role == glass.role and known.not_requester <= glass.not_requester
    return "" if same else "somebody else decides alone"


def test_terms_that_are_combined_loosen_neither_at_any_time() -> None:
    dice = Random(24)
    for _ in range(1_500):
        both = drawn(dice), drawn(dice)
        made = combined(*both)
        for at in (1, 31, 51, 61, 101, 121, 301, 999):
            now = None if made is None else terms_at(made, at * MINUTES)
            if now is None:
                continue
            for own in both:
                known = terms_at(own, at * MINUTES)
                why = "it is decided after the deadline" if known is None else loosened(now, known)
                assert why == "", (at, both)
