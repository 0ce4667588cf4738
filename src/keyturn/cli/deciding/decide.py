"""Take one decision from a command line to the inbox: find the request, see what was shown, ask, sign, and tell.

No rules of decisions are here: the inbox and its gate have them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple, cast

from ...console.screen import Terminal
from ...core.approval import Approval
from ...core.drill_words import drill_outcome
from ...core.errors import Conflict, KeyturnError, UserError
from ...core.records import RUNS
from ...inbox.personal import Details, PersonalInbox
from ...journal.rows import GrantRow, Query, RequestRow
from ...presenting.asking import vote_of
from ...presenting.grant_words import SCOPES, covered_words
from ...presenting.recorded import Recorded, overrules, starts_soon, starts_with, still_needed
from ...presenting.shown_request import ShownRequest, bare_item
from ...render.escape import Escaped, escape, quote
from ...render.length import is_long
from ..finding import SHORT, find_request
from ..with_journal import Told, hinting
from .asking import line_of, said_yes
from .batch import decide_alike
from .drawing import beside, draw_request
from .edits import edited
from .signing import sign
from .verb import NOT_DONE, SHORTEST_DIGEST, Verb


class _Asked(NamedTuple):
    """Holds what somebody is deciding: the request, what names it as it was shown, and whether they were asked."""

    row: RequestRow
    named: dict[str, Any]
    at_terminal: bool


async def decide(inbox: PersonalInbox, verb: Verb, arguments: argparse.Namespace) -> Told:
    """Record what somebody decides with a verb, and tell what became of it."""
    if getattr(arguments, "alike", False):
        return await decide_alike(inbox, verb, arguments)
    who, verdict = await inbox.who(), verb.verdict(arguments)
    words = verb.words(arguments)
    row = await find_request(inbox, arguments.request)
    asked = await _shown(inbox, row, arguments)
    if asked.at_terminal and verb.signs and getattr(arguments, "sign", None) is None and _needs_proof(row):
        raise UserError("this request requires your signature: add --sign, or --sign KEYFILE")
    if asked.at_terminal and who.verified and row.state == "open":
        await inbox.looked(row)
    if "typed" in words:
        words = {"output": _answer_of(row, words["typed"], at_terminal=asked.at_terminal)}
    if verb.name == "edit" and row.state == "open":
        words |= await edited(inbox, row, arguments)
    if asked.at_terminal and row.state == "open":
        _say_what_follows(verb, row)
        if verb.name == "reject":
            _ask_for_reason(row, words)
    if asked.at_terminal and verb.name != "edit" and not (_saw_all(verb, row) and _said_yes(verb.name, words)):
        return Told(["nothing was decided"], {"request": row.id, "state": row.state}, NOT_DONE)
    if verb.name == "edit" and words.pop("declined", False):
        return Told(["nothing was decided"], {"request": row.id, "state": row.state}, NOT_DONE)
    words |= asked.named | ({} if arguments.note is None else {"note": arguments.note})
    details = cast("Details", words)
    signing = getattr(arguments, "sign", None)
    if signing is not None:
        details["proof"] = await sign(inbox, row, verdict, details, signing)
    before = await _grants(inbox, row)
    known = who.verified or signing is not None  # the signature says who it is, and is checked
    with hinting(known, ", or sign with --sign" if verb.signs else ""):
        done = await inbox.decide(row.id, verdict, **details)
    given = [grant for grant in await _grants(inbox, row) if grant.id not in {each.id for each in before}]
    return _told(verb, done, given, "" if known else " (claimed)", await _recorded(inbox, done))


def _answer_of(row: RequestRow, typed: str | None, *, at_terminal: bool) -> Any:
    """Return an answer as the question takes it; one that is not on the command line is asked for at a terminal."""
    request = ShownRequest(bare_item(row))
    if typed is None and at_terminal:
        screen = Terminal.here()
        screen.say()
        typed = line_of(screen, "Your answer: a choice, or its number" if request.choices else "Your answer")
    if not typed and row.state == "open":
        raise UserError(f"the answer is missing: keyturn answer {row.id[:SHORT]} TEXT, or --data JSON")
    return request.answer(typed or "")


async def _recorded(inbox: PersonalInbox, row: RequestRow) -> Recorded | None:
    """Return what came of a decision as every interface words it; None where this token or name reads nothing of it."""
    try:
        return (await inbox.facts(row.id)).recorded
    except KeyturnError:
        return None


def _needs_proof(row: RequestRow) -> bool:
    terms = row.request.terms_now
    return row.state == "open" and terms is not None and terms.needs_proof


async def _grants(inbox: PersonalInbox, row: RequestRow) -> Sequence[GrantRow]:
    return await inbox.grant_rows(Query(run=row.run, limit=10_000))


async def _shown(inbox: PersonalInbox, row: RequestRow, arguments: argparse.Namespace) -> _Asked:
    """Return what names the request as it was shown; where nothing does, show it now to the person at the terminal."""
    if arguments.revision is not None:
        return _Asked(row, {"revision": arguments.revision}, False)
    if arguments.digest is not None:
        given: str = arguments.digest.lower()
        if len(given) < SHORTEST_DIGEST:
            raise UserError(f"give at least {SHORTEST_DIGEST} characters of the digest")
        if not row.digest.startswith(given):
            raise Conflict("the request has changed since it was shown; look at it again")
        return _Asked(row, {"digest": row.digest}, False)
    if row.state != "open":  # nobody is asked: the inbox says who decided
        return _Asked(row, {"digest": row.digest}, False)
    if arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(
            f"name what you were shown: run `keyturn show {row.id[:SHORT]}`, and pass its --digest or --revision; "
            "in an interactive terminal, the request is shown and you confirm"
        )
    draw_request(Terminal.here(), row, await inbox.now(), facts=await beside(inbox, row), asks=True)
    return _Asked(row, {"digest": row.digest}, True)


_QUESTIONS: dict[str, LiteralString] = {
    "approve": "Approve it? y or n",
    "reject": "Reject it? y or n",
    "answer": "Give this answer? y or n",
    "resolve": "Record this? y or n",
    "review": "Record this? y or n",
    "grant": "Approve it, and create a grant for similar calls? y or n",
    "ask": "Ask the agent this? The call does not run until the agent proposes it again. y or n",
}


def _ask_for_reason(row: RequestRow, words: dict[str, Any]) -> None:
    """Ask for the reason of a rejection that was given none; an empty line is none, where the terms require none."""
    if words.get("message"):
        return
    screen = Terminal.here()
    screen.say()
    needed = (row.request.terms or Approval()).reason != "optional"
    typed = line_of(screen, "Reason, which the model reads" if needed else "Reason, which the model reads; empty: none")
    if typed:
        words["message"] = typed
        if needed:
            words["note"] = typed


def _say_what_follows(verb: Verb, row: RequestRow) -> None:
    """Say before a decision is confirmed what it does, and whether it can be undone."""
    if verb.name == "reject":
        Terminal.here().label("note", overrules(row.request))
    elif verb.name in ("approve", "grant", "edit") and row.kind == "approval":
        Terminal.here().label("note", starts_with(row.request))


def _saw_all(verb: Verb, row: RequestRow) -> bool:
    """Ask whether a long call was seen whole, before a decision that lets it run."""
    if verb.name not in _LETS_RUN or not is_long(ShownRequest(bare_item(row)).lines()):
        return True
    screen = Terminal.here()
    screen.say()
    screen.say("This call is long.")
    return said_yes(screen, "Did you read all of it, up to its first row? y or n")


_LETS_RUN = ("approve", "grant", "answer", "resolve")


def _said_yes(name: str, words: dict[str, Any]) -> bool:
    screen = Terminal.here()
    screen.say()
    if "output" in words:
        screen.label("with", str(words["output"]))
    if name == "ask":
        screen.label("your question to the agent", words["message"])
    if words.get("break_glass"):
        screen.say("Emergency override: you approve it alone, and others are notified.")
    if "grant" in words:
        screen.label("grant", _grant_words(words["grant"]))
    return said_yes(screen, _QUESTIONS.get(name, "Record it? y or n"))


def _grant_words(grant: Any) -> Escaped:
    where = covered_words(grant.where)
    uses = "" if grant.uses is None else f", {grant.uses} times"
    until = "" if grant.expires is None else f", for {grant.expires}"
    return Escaped(f"{where}{uses}{until}, in {SCOPES[grant.scope].name}")


def _then(row: RequestRow, made: Recorded | None) -> str:
    """Say what comes of a decision, with the command that undoes it: an approved call may have started by now."""
    if row.state in RUNS:
        soon = made.then if made is not None and made.undo == "approval" else starts_soon()
        return f". {soon.removesuffix('.')}: keyturn withdraw {row.id[:SHORT]}"
    return "" if made is None or not made.then else f". {made.then}"


def _told(verb: Verb, row: RequestRow, given: Sequence[GrantRow], claimed: str, made: Recorded | None) -> Told:
    """Tell what a decision came to."""
    request = row.request
    needed = (request.terms or Approval()).quorum
    by = row.by or (request.votes[-1].by if request.votes else "")
    about = f"{escape(row.tool, keep='')} of {quote(row.agent)}, request {row.id[:SHORT]}"
    if row.state == "open":
        needs = still_needed(request) if made is None else made.then
        said = f"recorded: {about}, {vote_of(request)}. {needs} To undo: keyturn withdraw {row.id[:SHORT]}"
    elif drill_outcome(row.state):
        said = f"{drill_outcome(row.state)} ({about})"
    else:
        said = f"{verb.done}: {about}, by {quote(by)}{claimed}{_then(row, made)}"
    rows = [said, *(f"grant {grant.id}" for grant in given)]
    votes = [{"by": vote.by, "verdict": vote.verdict} for vote in request.votes]
    data = {"request": row.id, "run": row.run, "state": row.state, "by": row.by, "votes": votes, "needed": needed}
    return Told(rows, data | {"grants": [grant.id for grant in given]})
