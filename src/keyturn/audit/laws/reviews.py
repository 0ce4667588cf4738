"""Check the laws of reviews: others are asked where the glass was broken or the sample says so, and decide nothing.

The sample is drawn here a second time, from the salt of the run and the bytes of the call.
"""

from __future__ import annotations

from copy import copy
from hashlib import blake2b, sha256

from ...core import events as ev
from ...core.approval import Approval
from ...core.people import Decider
from ..calls import AuditedCall, Broken, canonical_text, need
from ..deciders import listed, same_person
from ..run import AuditedReview, AuditedRun


def draw(audited: AuditedRun, call: AuditedCall, share: float, giver: Decider | None = None) -> None:
    """Note that others must be asked about a call that no person decided, where it is of the sample."""
    need(0 <= share <= 1, "I8", f"a share of calls like {call.id} is looked at that is no share")
    if audited.bound_to != audited.run:  # it was drawn by the salt of another run, whose own log is checked
        audited.may_be_drawn = call.id
        return
    shown, key = call.digest(audited.run).encode(), audited.salt.encode()[:64]
    number = int.from_bytes(blake2b(shown, key=key, digest_size=8, person=b"review").digest())
    if number < share * (1 << 64):
        audited.due_review = (call.id, "sample", _names(giver))


def broken(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Note that others must be asked about a call for which the glass was broken."""
    if made.broke_glass:
        audited.due_review = (call.id, "glass", _names(made.decider))


def owes_no_review(audited: AuditedRun, event: ev.AnyEvent | None) -> None:
    """Check that a review that is due is asked for at once."""
    if isinstance(event, ev.ReviewAsked):
        return
    audited.may_be_drawn = ""
    if audited.due_review is not None:
        raise Broken("I8", f"others were to be asked about call {audited.due_review[0]}, and were not")


def review_asked(audited: AuditedRun, event: ev.ReviewAsked) -> None:
    """Check that a review is due, and names those who decided."""
    due, audited.due_review = audited.due_review, None
    asked = (event.call, event.why, event.deciders)
    copied = due is None and audited.may_be_drawn == event.call and event.why == "sample"
    audited.may_be_drawn = ""
    need(copied or due == asked, "I8", f"others were asked about call {event.call} for another reason than there was")
    call = copy(audited.at(event.call))
    before = audited.reviews.get(event.call)
    revision = 1 if before is None else before.revision + 1
    bound = sha256(canonical_text(["review", call.digest(audited.bound_to), revision]).encode()).hexdigest()
    audited.reviews[event.call] = AuditedReview(call, event.why, audited.now, revision, event.deciders, bound)


def review_given(audited: AuditedRun, event: ev.ReviewGiven) -> None:
    """Check that a review is of somebody who may give it, once, on what was shown."""
    review = audited.reviews.get(event.call)
    if review is None or review.said is not None:
        raise Broken("I3", f"call {event.call} was reviewed, and no review was pending")
    need(event.digest == review.digest, "I4", f"a review of call {event.call} is of other bytes")
    known = event.verdict in ("right", "wrong") and (event.verdict == "right" or event.note)
    need(known, "I7", f"a review of call {event.call} says neither right nor what was wrong")
    why = _barred(review, event.decider, audited.requester)
    need(not why, "I1", f"call {event.call} was reviewed {why}")
    review.said = event


def _names(who: Decider | None) -> tuple[str, ...]:
    if who is None:
        return ()
    return (who.id, who.acting_for) if who.acting_for else (who.id,)


def _barred(review: AuditedReview, who: Decider, requester: str | None) -> str:
    """Return why somebody may not review a call; "" where they may."""
    own = (who.id, who.acting_for)
    if who.strength not in ("authenticated", "signed"):
        return "by a name that was not verified"
    if same_person(review.deciders, own):
        return "by a person who approved it"
    if who.requester or same_person([requester or ""], own):
        return "by the person for whom the run acts"
    terms = review.call.terms or Approval()
    users = [user for user in terms.users if not same_person([user], review.deciders)]
    named = listed(who, users) or (terms.role is not None and terms.role in who.roles)
    return "" if named or not (users or terms.role is not None) else "by a person whom its terms do not name"
