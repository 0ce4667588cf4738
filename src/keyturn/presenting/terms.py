"""State the terms of an approval in sentences: one list for request pages, policy pages, tools and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ..core.approval import Approval
from ..core.durations import milliseconds
from ..render.escape import quote
from .clock import span

About = Literal["confirm", "people", "deny", "proof", "emergency", "look", "reason", "expiry", "execution", "then"]
#: What says who may decide, and how many; the rest says when and how.
DECIDERS: frozenset[About] = frozenset({"confirm", "people", "deny", "proof", "then"})


class Term(NamedTuple):
    """Holds one term: what it is about, and its sentence, in which names are quoted.

    >>> [each.text for each in terms_of(Approval(quorum=2))]
    ['2 approvals from any signed-in user']
    """

    about: About
    text: str


def terms_of(terms: Approval, *, confirmed: bool = False) -> Iterator[Term]:
    """Return the terms of an approval, those of each later step as one; none for terms that limit nothing.

    >>> [each.text for each in terms_of(Approval(role="ops", not_requester=True, expires="4h"))]
    ['approval from role "ops", not the requester', 'rejected after 4 h without a decision']
    """
    if terms.confirm:
        yield Term("confirm", "the requester has confirmed it" if confirmed else "the requester confirms it")
    if terms.four_eyes:
        yield Term("people", _people(terms))
    if terms.deny_quorum > 1:
        yield Term("deny", f"{terms.deny_quorum} rejections are required to reject it")
    if terms.needs_proof:
        yield Term("proof", "each decision is signed with the approver's own key")
    if terms.break_glass is not None:
        yield Term("emergency", f"role {quote(terms.break_glass)} may approve alone in an emergency")
    if terms.min_look is not None:
        seconds = -(-milliseconds(terms.min_look) // 1_000)
        yield Term("look", f"an approver views it for at least {seconds} s first")
    if terms.reason != "optional":
        yield Term("reason", "a reason is required" + (" to reject it" if terms.reason == "on_reject" else ""))
    if terms.expires_ms is not None:
        yield Term("expiry", f"{at_expiry(terms)} after {span(terms.expires_ms, exact=True)} without a decision")
    if terms.execute_by_ms is not None:
        yield Term("execution", f"an approval is valid for {span(terms.execute_by_ms, exact=True)}")
    for step in terms.in_turn[1:]:
        yield Term("then", f"then {'; '.join(each.text for each in terms_of(step))}")


def deciders_of(terms: Approval | None, *, confirmed: bool = False) -> str:
    """Return in one line who may decide, and how many must.

    >>> deciders_of(None), deciders_of(Approval(confirm=True, role="ops"), confirmed=True)
    ('anyone', 'the requester has confirmed it; approval from role "ops"')
    """
    if terms is None or not terms.limits_deciders:
        return "anyone"
    said = [each.text for each in terms_of(terms, confirmed=confirmed) if each.about in DECIDERS]
    return "; ".join(said)


def _people(terms: Approval) -> str:
    who = people_of(terms)
    others = ", not the requester" if terms.not_requester else ""
    return f"{terms.quorum} approvals from {who}{others}" if terms.quorum > 1 else f"approval from {who}{others}"


def people_of(terms: Approval) -> str:
    """Return whose approval terms require.

    >>> people_of(Approval(role="ops", users=["ann"], not_requester=True))
    'role "ops" or "ann"'
    """
    named = [*([f"role {quote(terms.role)}"] if terms.role else []), *(quote(user) for user in terms.users)]
    return " or ".join(named) or "any signed-in user"


def at_expiry(terms: Approval | None) -> str:
    """Return what becomes of a request that expires."""
    if terms is None or terms.on_expiry == "reject":
        return "rejected"
    if terms.on_expiry == "ask_again":
        return f"asked again ({terms.max_asks} times in all)"
    return f"escalated to {', '.join(map(quote, terms.escalate_to))}"
