"""Check who may decide a call, from its terms and from what is recorded of the decider, by code of its own.

Only data types are shared with the core. What is not known of somebody counts against them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict, replace

from ..core import events as ev
from ..core.approval import Approval
from ..core.people import Decider, Proof
from .calls import canonical_text
from .voices import heard, reads

_ROLE = "role:"
_FACTS = ("ran", "did_not_run", "expire")


def objection(terms: Approval | None, who: Decider | None, requester: str | None, proof: Proof | None = None) -> str:
    """Return what these terms have against a decider; "" where they have nothing.

    >>> objection(Approval(users=["ada"]), Decider("bob", strength="authenticated"), None)
    'by a person whom its terms do not name'
    >>> objection(Approval(users=["ada"]), Decider("ada", strength="authenticated"), None)
    ''
    """
    if terms is None or not takes_people(terms):
        return ""
    if who is None:
        return "by no user in particular, and its terms ask for a known person"
    if who.strength not in ("authenticated", "signed"):
        return "by a name that was not verified"
    if terms.confirm:
        own = who.requester or (bool(requester) and who.id == requester and not who.acting_for)
        return _unsigned(terms, who, proof) if own else "by a person other than the one for whom the run acts"
    named = terms.role is not None or bool(terms.users)
    if named and not listed(who, terms.users) and (terms.role is None or terms.role not in who.roles):
        return "by a person whom its terms do not name"
    if terms.not_requester and (who.requester or _same(requester, who)):
        return "by the person for whom the run acts"
    if terms.not_requester and requester is None:
        return "though its terms exclude the requester and the run does not say who that is"
    return _unsigned(terms, who, proof)


def listed(who: Decider, users: Iterable[str]) -> bool:
    """Return whether a list of people has who decides: what somebody acts with who was lent roles is no name."""
    return (who.acting_for or who.id) in users and (not who.acting_for or not who.roles_only)


def _unsigned(terms: Approval, who: Decider, proof: Proof | None) -> str:
    signed = who.strength == "signed" and proof is not None
    return "" if signed or not (terms.signed or terms.step_up) else "without the signature that its terms ask for"


def two_steps(terms: Approval | None) -> bool:
    """Return whether the requester confirms first, and others decide then."""
    if terms is None or not terms.confirm:
        return False
    several = terms.quorum > 1 or terms.deny_quorum > 1
    return several or terms.role is not None or bool(terms.users) or terms.not_requester


def of_step(terms: Approval | None, *, confirmed: bool) -> Approval | None:
    """Return what the step asks for that is due, where there are two."""
    if terms is None or not two_steps(terms):
        return terms
    if confirmed:
        return replace(terms, confirm=False, not_requester=True)
    looks = terms.min_look
    return Approval(confirm=True, signed=terms.signed, step_up=terms.step_up, reason=terms.reason, min_look=looks)


def chain_of(terms: Approval | None) -> list[Approval | None]:
    """Return the terms of each step of a chain from the one that is due on; these alone, where they have no steps."""
    found = [terms]
    while terms is not None and terms.then is not None:
        terms = terms.then
        found.append(terms)
    return found


def lasts(terms: Approval | None) -> int | None:
    """Return how long what lets a call run is valid, in milliseconds: of a chain its last step says so."""
    last = chain_of(terms)[-1]
    return None if last is None else last.execute_by_ms


def behind_glass(terms: Approval | None) -> Approval | None:
    """Return what is asked of who breaks the glass; None where nobody may."""
    if terms is None or terms.break_glass is None:
        return None
    every = [each for each in chain_of(terms) if each is not None]
    others = any(each.not_requester or two_steps(each) or (each.confirm and len(every) > 1) for each in every)
    longest = max((each.min_look_ms or 0 for each in every), default=0)
    signed = any(each.signed or each.step_up for each in every)
    return Approval(role=terms.break_glass, not_requester=others, min_look=longest / 1_000 or None, signed=signed)


def hasty(terms: Approval | None, looks: Mapping[str, int], made: ev.Decision) -> bool:
    """Return whether a decision lets a call run, by somebody who has not looked at it for as long as its terms say."""
    if terms is None or terms.min_look_ms is None or made.verdict not in ("approve", "edit", "retry"):
        return False
    who = made.decider
    if who is None or who.strength == "claimed" or who.id not in looks:
        return True
    return made.at - looks[who.id] < terms.min_look_ms


def outside(terms: Approval | None, who: Decider | None, requester: str | None) -> str:
    """Return what the terms of every step have against somebody, whatever they sign; "" where one has nothing."""
    if terms is None or not takes_people(terms):
        return ""
    if who is None or who.strength == "claimed":
        return "by a name that was not verified"
    bare = replace(terms, signed=False, step_up=False)
    steps = [of_step(bare, confirmed=False), of_step(bare, confirmed=True)]
    whys = [objection(step, who, requester) for step in steps]
    return "" if "" in whys else whys[-1]


def takes_people(terms: Approval | None) -> bool:
    """Return whether only people who are known for sure may decide under these terms."""
    if terms is None:
        return False
    several = terms.quorum > 1 or terms.deny_quorum > 1
    named = terms.role is not None or bool(terms.users)
    return several or named or terms.not_requester or terms.signed or terms.step_up or terms.confirm


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


def _same(requester: str | None, who: Decider) -> bool:
    return requester is not None and reads(requester) in (reads(who.id), reads(who.acting_for))


def same_person(some: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether a name of some reads like one of others."""
    return not {reads(name) for name in some if name}.isdisjoint(reads(name) for name in others if name)


def voices(terms: Approval | None, votes: Mapping[str, ev.Decision], made: ev.Decision, now: int) -> int:
    """Count the people who have said the same as a decision, its own decider among them."""
    counted = agreeing(terms, votes, made, now) | {made.by or "": made}
    return heard(vote.decider for vote in counted.values())


def agreeing(
    terms: Approval | None, votes: Mapping[str, ev.Decision], made: ev.Decision, now: int
) -> dict[str, ev.Decision]:
    """Return the votes of others that say the same as a decision and have not gone stale."""
    within = terms.execute_by_ms if terms is not None else None
    fresh = {by: vote for by, vote in votes.items() if within is None or now <= vote.at + within}
    return {by: vote for by, vote in fresh.items() if by != (made.by or "") and agree(vote, made)}


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
