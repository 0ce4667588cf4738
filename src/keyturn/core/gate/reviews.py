"""Ask others about what was let run: after the glass was broken, and by sampling what no person decided.

A review is beside the call: it waits for nobody, and nobody's word on it changes what the call is or does. Which calls
are of the sample follows from the run's salt and the call's digest, so that replay and the auditor draw the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import get_args

from .. import commands as cm
from .. import events as ev
from ..approval import Approval
from ..beside_events import ReviewWord
from ..digest import digest
from ..errors import Conflict, NotAllowed, NotPending, UserError
from ..people import Decider, is_one_of, plain_text
from ..run import Call, Review, Run, call_digest

_OF_A_CALL = "review:"
_WHOLE = 1 << 64


def review_name(call_id: str) -> str:
    """Return what a review is called in its run: never what its call is called.

    >>> review_name("r/1.0")
    'review:r/1.0'
    """
    return f"{_OF_A_CALL}{call_id}"


def reviewed_call(name: str) -> str | None:
    """Return the call that a review of that name is about; None where it is the name of a call.

    >>> reviewed_call("review:r/1.0"), reviewed_call("r/1.0")
    ('r/1.0', None)
    """
    return name.removeprefix(_OF_A_CALL) if name.startswith(_OF_A_CALL) else None


def open_review(run: Run, call_id: str) -> Review | None:
    """Return the review of a call that nobody has given yet."""
    review = run.reviews.get(call_id)
    return None if review is None or review.said is not None else review


def review_digest(run: Run, review: Review) -> str:
    """Return what a review is bound to: the call as it was let run, and which review of it this is."""
    return digest("review", call_digest(run, review.call), review.revision)


def drawn(salt: str, shown: str, share: float) -> bool:
    """Return whether a call is of the sample, by its digest and the salt of its run.

    >>> drawn("salt", "d1", 1.0), drawn("salt", "d1", 0.0)
    (True, False)
    """
    number = blake2b(shown.encode(), key=salt.encode()[:64], digest_size=8, person=b"review").digest()
    return int.from_bytes(number) < share * _WHOLE


def sampled(run: Run, call: Call, share: float, giver: Decider | None = None) -> Iterable[ev.ReviewAsked]:
    """Yield that others are asked about a call that no person decided, where it is of the sample."""
    if share and drawn(run.salt, call_digest(run, call), share):
        yield ev.ReviewAsked(call.id, "sample", _named([giver]))


def glass_broken(call: Call, decision: ev.Decision) -> Iterable[ev.ReviewAsked]:
    """Yield that others are asked about a call that somebody decided alone in an emergency."""
    if decision.broke_glass:
        yield ev.ReviewAsked(call.id, "glass", _named([decision.decider]))


def _named(people: Iterable[Decider | None]) -> tuple[str, ...]:
    """Name those on whose word a call was let run, and in whose place they said it."""
    known = [who for who in people if who is not None]
    return tuple(dict.fromkeys(name for who in known for name in (who.id, who.acting_for) if name))


def give_review(run: Run, c: cm.GiveReview) -> Iterable[ev.ReviewGiven]:
    """Record what somebody says of a call that was let run, once; the run may be over."""
    review = run.reviews.get(c.call)
    if review is None:
        raise NotPending("no review of that call is requested")
    if c.digest != review_digest(run, review):
        raise Conflict("the call was allowed again since it was shown; review it again")
    if c.verdict not in get_args(ReviewWord):
        raise UserError(f"a review says 'right' or 'wrong', not {c.verdict!r}")
    if c.note is not None:
        plain_text(c.note, "a note")
    if c.verdict == "wrong" and not c.note:
        raise UserError("a reason is required: pass note=")
    why = kept_from_review(review.call.terms, review.deciders, c.decider, run.requester)
    if why:
        raise NotAllowed(f"{c.decider.id} cannot review this call: {why}")
    said = review.said
    if said is not None and (said.decider.id, said.verdict, said.note) != (c.decider.id, c.verdict, c.note):
        raise Conflict(
            f"this call was already reviewed: {said.verdict} by {said.decider.id}; the first review is final",
            winner=said.decider.id,
            decision=said.verdict,
        )
    if said is None:
        yield ev.ReviewGiven(c.call, c.verdict, c.digest, c.decider, c.note)


def kept_from_review(terms: Approval | None, deciders: tuple[str, ...], who: Decider, requester: str | None) -> str:
    """Return why somebody may not review a call; "" where they may.

    Those whom its terms name may, the requester and whoever decided it aside; if that leaves nobody, anybody else.

    >>> kept_from_review(Approval(users=["ada"]), ("cyd",), Decider("ada", strength="authenticated"), None)
    ''
    >>> kept_from_review(None, ("ada",), Decider("ada", strength="authenticated"), None)
    'they approved it, and another user must review it'
    """
    if who.strength == "claimed":
        return "it requires a signed-in user, and a name alone proves nothing"
    if who.is_any_of(deciders):
        return "they approved it, and another user must review it"
    if who.requester or is_one_of(requester, who.id, who.acting_for):
        return "it requires a user other than the requester"
    if terms is None:
        return ""
    users = [user for user in terms.users if not is_one_of(user, *deciders)]
    if terms.role is None and not users:
        return ""
    if who.is_named(users) or (terms.role is not None and terms.role in who.roles):
        return ""
    wanted = [*users, *([f"the role {terms.role!r}"] if terms.role is not None else [])]
    return f"it requires {' or '.join(wanted)}"
