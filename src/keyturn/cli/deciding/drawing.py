"""Draw a request as people see it: the console's words, and below them who may decide, who did, and what names it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, LiteralString, cast

import msgspec

from ...console.introduction import describe, point_out
from ...console.screen import Terminal
from ...core.approval import Approval
from ...core.encodable import moment
from ...core.errors import Conflict, NotAllowed
from ...core.request import Request, Vote
from ...inbox.personal import PersonalInbox
from ...journal.rows import RequestRow
from ...presenting.asking import Standing
from ...presenting.clock import here
from ...presenting.facts import RequestFacts
from ...presenting.notifications import Notification, delivered_of, undelivered_first
from ...presenting.recorded import still_needed
from ...presenting.shown_request import ShownRequest, bare_item
from ...presenting.terms import DECIDERS, Term, deciders_of, terms_of
from ...presenting.trail import TrailMark
from ...render.layout import LayoutLine
from ...render.plural import plural
from ...render.verdicts import STATES as STATES
from ..finding import SHORT
from ..printing import print_labelled

# How many notifications of a request are drawn.
_NOTIFIED = 20
# How many other requests of the same call are named.
_IDENTICAL = 3
#: How much of a digest names what was shown.
DIGEST = 16


def draw_request(
    screen: Terminal,
    row: RequestRow,
    now: int,
    *,
    facts: RequestFacts | None = None,
    named: bool = True,
    asks: bool = False,
) -> None:
    """Draw all of a request, with the `facts` that stand beside it; what names it only where it is decided by itself.

    Where the command itself `asks` for a confirmation, no other command is named.
    """
    facts = RequestFacts(row, Standing(())) if facts is None else facts
    item = bare_item(row)
    request = item.request
    describe(screen, item)
    for drawn in screen.rows(ShownRequest(item).lines()):
        screen.show(drawn)
    screen.say()
    point_out(screen, facts.context)
    screen.rule("Who decides")
    _draw_terms(screen, request)
    if not named:
        return
    for number, step in enumerate(request.met, 1):
        for vote in step.votes:
            screen.label("voted", f"step {number}: {_vote(vote)}")
    for vote in request.votes:
        screen.label("voted", _vote(vote))
    if facts.people and row.state == "open":
        screen.label("approvals", still_needed(request, facts.people))
    screen.label("requested", here(request.asked_at))
    if row.state != "open":
        _draw_end(screen, row)
    elif row.expires_at is not None:
        _draw_clock(screen, row.expires_at - now)
    _draw_marks(screen, request, now)
    screen.label("request", row.id)
    screen.label("run", row.run)
    screen.label("call", row.call)
    screen.label("revision", str(request.revision))
    screen.label("digest", row.digest)
    if row.state == "open" and facts.recorded is not None and facts.recorded.undo == "vote":
        screen.label("your vote", f"{facts.recorded.heading} To undo: keyturn withdraw {row.id[:SHORT]}")
    elif row.state == "open" and not asks:
        signed = request.terms_now is not None and request.terms_now.needs_proof
        command = f"keyturn {_verb(request)} {row.id[:SHORT]} --digest {row.digest[:DIGEST]}"
        screen.label("decide with", f"{command} --sign" if signed else command)


async def beside(inbox: PersonalInbox, row: RequestRow) -> RequestFacts:
    """Return what stands beside a request that was found; nothing where the token is not good for "read"."""
    try:
        found = await inbox.facts(row.id)
    except NotAllowed as error:
        print_labelled("the conversation before is not shown", str(error))
        return RequestFacts(row, Standing(()))
    if (found.row.digest, found.row.revision) != (row.digest, row.revision):
        raise Conflict("the request has changed since it was shown; look at it again")
    return found


def _verb(request: Request) -> str:
    words = {"approval": "approve", "external": "answer", "in_doubt": "resolve", "review": "review"}
    return words[request.kind]


def _draw_terms(screen: Terminal, request: Request) -> None:
    """Draw who may decide and how many must, then the other terms, with the options that they require."""
    terms = (request.terms or Approval()).alone
    if request.steps:
        screen.label("step", f"{request.step} of {request.steps}")
    screen.label("who decides", deciders_of(terms, confirmed=request.waits_for == "others"))
    for step in () if request.terms is None else request.terms.in_turn[1:]:
        screen.label("then", deciders_of(step))
    for term in terms_of(terms):
        if term.about not in DECIDERS:
            screen.label(term.about, term.text + _option(terms, term))
    if terms.not_requester or terms.confirm:
        screen.label("requester", request.requester or "unknown")


def _option(terms: Approval, term: Term) -> str:
    if term.about == "emergency":
        return " (--break-glass)"
    if term.about == "reason":
        return " (--note)" if terms.reason == "required" else " (--note or --message)"
    return ""


def _vote(vote: Vote) -> str:
    given = "" if vote.params is None else f" {json.dumps(vote.params, ensure_ascii=False)}"
    note = f", note: {vote.note}" if vote.note else ""
    return f"{vote.verdict}{given} by {vote.named or 'unknown'} on {here(vote.at)}{note}"


def _draw_clock(screen: Terminal, left: int) -> None:
    seconds = max(left, 0) // 1000
    if left <= 0:
        screen.say("It has expired.")
    elif seconds < 120:
        screen.say("{} seconds are left.", seconds)
    elif seconds < 7200:
        screen.say("{} minutes are left.", seconds // 60)
    else:
        screen.say("{} hours are left.", seconds // 3600)


def _draw_marks(screen: Terminal, request: Request, now: int) -> None:
    """Say who is on it, and who put it off; what is over is not told."""
    claim = request.claim
    if claim is not None and claim.lasts(now):
        screen.label("claimed by", f"{claim.by} until {here(claim.until)}")
    for mark in request.snoozed:
        if mark.lasts(now):
            screen.label("snoozed by", f"{mark.by} until {here(mark.until)}")


def _draw_end(screen: Terminal, row: RequestRow) -> None:
    at = "" if row.closed_at is None else f" on {here(row.closed_at)}"
    by = f" by {row.by}" if row.by and row.state != "expire" else ""
    screen.label("state", f"{STATES.get(row.state, row.state)}{by}{at}")


def draw_identical(screen: Terminal, row: RequestRow, others: Sequence[RequestRow]) -> None:
    """Draw that the same call is pending in other requests, and how all of them are shown."""
    if others:
        named = ", ".join(each.id[:SHORT] for each in others[:_IDENTICAL])
        more = f" and {len(others) - _IDENTICAL} more" if len(others) > _IDENTICAL else ""
        what = f"{plural(len(others), 'other pending request')} of the same call: {named}{more}"
        screen.label("identical", f"{what}; keyturn show {row.id[:SHORT]} --alike")


def draw_trail(screen: Terminal, trail: Sequence[TrailMark]) -> None:
    """Draw what happened to the call after it was proposed; an edit shows the arguments before it and after it."""
    if len(trail) < 2:  # that it asks is shown above
        return
    screen.rule("What happened")
    for mark in trail:
        by = f" by {mark.by}" if mark.by else ""
        screen.label(cast("LiteralString", here(mark.at)), f"{mark.word}{by}")
        lines = [LayoutLine("context", line) for line in str(mark.text or "").split("\n") if line]
        for drawn in screen.rows([lines]):
            screen.show(drawn)


def draw_notified(screen: Terminal, notified: Sequence[Notification], now: int) -> None:
    """Draw who was notified, by which channel, when, and whether it was delivered."""
    if not notified:
        return
    screen.rule("Notified")
    screen.label("notified", delivered_of(notified))
    for each in undelivered_first(notified, _NOTIFIED):
        screen.label("to", f"{each.to}: {each.words(now)}")


def notified_data(notified: Sequence[Notification]) -> list[dict[str, Any]]:
    """Return who was notified as plain data."""
    return [each._asdict() | {"at": f"{moment(each.at):%Y-%m-%dT%H:%M:%SZ}"} for each in notified]


def trail_data(trail: Sequence[TrailMark]) -> list[dict[str, Any]]:
    """Return what happened to a call as plain data."""
    return [
        {
            "at": f"{moment(mark.at):%Y-%m-%dT%H:%M:%SZ}",
            "what": mark.word,
            "by": mark.by,
            "text": mark.text and str(mark.text),
        }
        for mark in trail
    ]


def request_data(row: RequestRow) -> dict[str, Any]:
    """Return a request as plain data: all that people are shown, and what became of it."""
    told: dict[str, Any] = msgspec.to_builtins(dict(row.request))
    closed = None if row.closed_at is None else f"{moment(row.closed_at):%Y-%m-%dT%H:%M:%SZ}"
    return told | {"state": row.state, "closed_at": closed, "by": row.by}
