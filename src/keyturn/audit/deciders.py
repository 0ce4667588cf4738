"""Check who may decide a call, from its terms and from what is recorded of the decider, by code of its own.

Only data types are shared with the core. What is not known of somebody counts against them.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from msgspec.structs import asdict

from ..core import events as ev
from ..core.people import Decider, Proof
from ..core.policy import Approval
from .calls import canonical_text

_ROLE = "role:"
_FACTS = ("ran", "did_not_run", "expire")


def objection(terms: Approval | None, who: Decider | None, requester: str | None, proof: Proof | None = None) -> str:
    """Return what these terms have against a decider; "" where they have nothing.

    >>> objection(Approval(users=["ada"]), Decider("bob", strength="authenticated"), None)
    'by somebody whom its terms do not name'
    >>> objection(Approval(users=["ada"]), Decider("ada", strength="authenticated"), None)
    ''
    """
    if terms is None or not takes_people(terms):
        return ""
    if who is None:
        return "by nobody in particular, and its terms ask for a known person"
    if who.strength not in ("authenticated", "signed"):
        return "by a name that nobody verified"
    named = terms.role is not None or bool(terms.users)
    if named and (who.acting_for or who.id) not in terms.users and (terms.role is None or terms.role not in who.roles):
        return "by somebody whom its terms do not name"
    if terms.not_requester and (who.requester or _same(requester, who)):
        return "by the person for whom the run acts"
    if terms.not_requester and requester is None:
        return "though its terms exclude the requester and the run does not say who that is"
    if (terms.signed or terms.step_up) and (who.strength != "signed" or proof is None):
        return "without the signature that its terms ask for"
    return ""


def takes_people(terms: Approval | None) -> bool:
    """Return whether only people who are known for sure may decide under these terms."""
    if terms is None:
        return False
    several = terms.quorum > 1 or terms.deny_quorum > 1
    named = terms.role is not None or bool(terms.users)
    return several or named or terms.not_requester or terms.signed or terms.step_up


def quorum(terms: Approval | None, verdict: str) -> int:
    """Return how many people a verdict takes; what became of a call is a fact that one person can report."""
    if terms is None or verdict in _FACTS:
        return 1
    return terms.deny_quorum if verdict == "reject" else terms.quorum


def agree(vote: ev.Decision, made: ev.Decision) -> bool:
    """Return whether two decisions have the same content; only a rejection has none but itself."""
    if vote.verdict != made.verdict or vote.verdict == "reject":
        return vote.verdict == made.verdict
    if vote.verdict == "edit" and (vote.args, vote.basis) != (made.args, made.basis):
        return False
    return canonical_text(vote.output) == canonical_text(made.output)


def whose_word(made: ev.Decision) -> str:
    """Return whose word a decision is: who decides in somebody's place is one with them towards a quorum."""
    who = made.decider
    return "" if who is None else _read(who.acting_for or who.id)


def _same(requester: str | None, who: Decider) -> bool:
    return requester is not None and _read(requester) in (_read(who.id), _read(who.acting_for))


def _read(name: str | None) -> str:
    """Return an id as it reads: letters of another case or width make no other person."""
    return unicodedata.normalize("NFKC", name or "").casefold()


def lacks_reason(terms: Approval | None, made: ev.Decision) -> bool:
    """Return whether a decision comes without the reason that the terms ask for."""
    if terms is None or made.note or made.message:
        return False
    return terms.reason == "required" or (terms.reason == "on_reject" and made.verdict == "reject")


def is_escalation(before: Approval, after: Approval | None) -> bool:
    """Return whether terms are exactly what others become when they are escalated."""
    if after is None:
        return False
    people = tuple(name for name in before.escalate_to if not name.startswith(_ROLE))
    roles = [name.removeprefix(_ROLE) for name in before.escalate_to if name.startswith(_ROLE)]
    changed: dict[str, Any] = {"users": people, "role": roles[0] if roles else None}
    return asdict(after) == asdict(before) | changed | {"on_expiry": "reject", "escalate_to": ()}
