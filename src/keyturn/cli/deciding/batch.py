"""Decide requests of one shape together: the same tool with the same arguments, of whatever run.

The digest of a batch is of its shape and of every request in it, as each was shown. So whoever names one decides those
that they saw and no other: of a batch that another request has joined since, the digest is another one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, LiteralString

from ...console.screen import Terminal
from ...core.approval import Approval
from ...core.digest import canonical
from ...core.drill_words import drill_outcome
from ...core.errors import Conflict, NotPending, UserError
from ...inbox.naming import Outcome
from ...inbox.personal import Details, PersonalInbox
from ...journal.rows import RequestRow
from ...presenting.asking import step_words
from ...presenting.clock import here
from ...render.escape import escape, quote
from ..finding import SHORT, find_request
from ..with_journal import Told
from .asking import said_yes
from .drawing import DIGEST, draw_request, request_data
from .verb import NOT_DONE, SHORTEST_DIGEST, Verb

_OPTIONS = {
    "revision": "--revision: name the batch by its --digest",
    "sign": "--sign: a signature is for one request",
    "break_glass": "--break-glass: it is for one request",
    "always": "--always: it is for one run",
}
_QUESTIONS: dict[str, LiteralString] = {
    "approve": "Approve all of them? y or n",
    "reject": "Reject all of them? y or n",
}


def batch_digest(rows: Sequence[RequestRow]) -> str:
    """Return what names these requests together, as they are shown now.

    >>> batch_digest([])[:16]
    '4f53cda18c2baa0c'
    """
    members = sorted([row.request.shape, row.id, row.digest] for row in rows)
    return sha256(canonical(members).encode()).hexdigest()


async def batch_of(inbox: PersonalInbox, row: RequestRow) -> Sequence[RequestRow]:
    """Return the open requests like this one, the oldest first; raise `NotPending` where none waits."""
    found = sorted(await inbox.alike(row), key=lambda each: each.place)
    if not found:
        raise NotPending("no identical request is pending; keyturn requests lists those that are")
    return found


def draw_batch(screen: Terminal, rows: Sequence[RequestRow], now: int) -> None:
    """Draw a batch: whole what would run and who may decide, for each that reads otherwise, and a row for each."""
    drawn = set[str]()
    for row in rows:
        shown = json.dumps(_shown(row), sort_keys=True, default=str)
        if shown not in drawn:
            draw_request(screen, row, now, named=False)
            drawn.add(shown)
    screen.say()
    screen.rule("{} requests of this shape", len(rows))
    for row in rows:
        screen.label(row.id[:SHORT], " ".join(_parts(row)))  # pyright: ignore[reportArgumentType] hex digits of ours
    screen.label("batch", batch_digest(rows))
    first = rows[0]
    command = f"keyturn approve {first.id[:SHORT]} --alike --digest {batch_digest(rows)[:DIGEST]}"
    screen.label("decide them with", command)


def batch_data(rows: Sequence[RequestRow]) -> dict[str, Any]:
    """Return a batch as plain data."""
    return {"batch": batch_digest(rows), "requests": [request_data(row) for row in rows]}


def _shown(row: RequestRow) -> dict[str, Any]:
    """Return what people are shown of a request that may differ within a batch."""
    told = request_data(row)
    own = ("id", "run", "call", "digest", "asked_at", "label", "expires_at", "votes", "claim", "snoozed", "revision")
    return {name: value for name, value in told.items() if name not in own}


def _parts(row: RequestRow) -> Iterator[str]:
    request = row.request
    yield f"of {quote(row.agent)} in run {row.run[:SHORT]}"
    if request.requester is not None:
        yield f"for {quote(request.requester)}"
    yield f"requested on {here(request.asked_at)}"
    if request.steps:
        yield f"in {step_words(request)}"
    needed = (request.terms or Approval()).quorum
    if needed > 1:
        yield f"with {len(request.votes)} of {needed} approvals"


async def decide_alike(inbox: PersonalInbox, verb: Verb, arguments: argparse.Namespace) -> Told:
    """Record what somebody decides of a batch, and tell what became of each."""
    for name, what in _OPTIONS.items():
        if getattr(arguments, name, None) not in (None, False):
            raise UserError(f"leave out {what}")
    who = await inbox.who()
    row = await find_request(inbox, arguments.request)
    rows = await batch_of(inbox, row)
    if not await _confirmed(inbox, verb, rows, arguments):
        return Told(["nothing was decided"], batch_data(rows), NOT_DONE)
    given: Details = {"note": arguments.note, "message": getattr(arguments, "message", None)}
    outcomes = await inbox.decide_all(rows, "approve" if verb.name == "approve" else "reject", **given)
    by = quote(who.id) + ("" if who.verified else " (claimed)")
    told = [_row(verb, outcome, by) for outcome in outcomes]
    refused = sum(not outcome.ok for outcome in outcomes)
    told.append(f"{len(outcomes) - refused} recorded" + (f", {refused} refused" if refused else ""))
    return Told(told, [_data(outcome) for outcome in outcomes], 1 if refused else 0)


async def _confirmed(
    inbox: PersonalInbox, verb: Verb, rows: Sequence[RequestRow], arguments: argparse.Namespace
) -> bool:
    """Return whether these are the requests that were shown; where nothing says so, show them now and ask."""
    if arguments.digest is not None:
        given: str = arguments.digest.lower()
        if len(given) < SHORTEST_DIGEST:
            raise UserError(f"give at least {SHORTEST_DIGEST} characters of the batch's digest")
        if not batch_digest(rows).startswith(given):
            raise Conflict("the batch has changed since it was shown: a request was decided or added; look at it again")
        return True
    if arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(
            f"name what you were shown: run `keyturn show {rows[0].id[:SHORT]} --alike`, and pass its --digest; "
            "in an interactive terminal, the requests are shown and you confirm"
        )
    screen = Terminal.here()
    draw_batch(screen, rows, await inbox.now())
    screen.say()
    return said_yes(screen, _QUESTIONS[verb.name])


def _row(verb: Verb, outcome: Outcome, by: str) -> str:
    name = outcome.request[:SHORT]
    if outcome.row is None:
        return f"refused: request {name}: {escape(str(outcome.error), keep='')}"
    row = outcome.row
    about = f"{escape(row.tool, keep='')} of {quote(row.agent)}, request {name}"
    if row.state == "open":
        needed = (row.request.terms or Approval()).quorum
        votes = f"{len(row.request.votes)} of {needed} approvals"
        steps = f", {step_words(row.request)}" if row.request.steps else ""
        return f"recorded, more approvals are required: {about}{steps}, {votes}"
    return f"{drill_outcome(row.state) or verb.done}: {about}, by {by}"


def _data(outcome: Outcome) -> dict[str, Any]:
    state = None if outcome.row is None else outcome.row.state
    why = None if outcome.error is None else str(outcome.error)
    return {"request": outcome.request, "ok": outcome.ok, "state": state, "error": why}
