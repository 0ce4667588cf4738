"""The inbox and the request: what waits, and one question at a time."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, RedirectResponse, Response

from ...core import events as ev
from ...core.codec import Log
from ...core.errors import KeyturnError, UserError
from ...core.run import undo_until
from ...engine.run.log_cache import log_in
from ...inbox.listing import SHOWN, Filters, Listed, ListPlace, grouped, listed
from ...inbox.personal import MARKINGS, VERDICTS, Details, Verdict
from ...inbox.readers import reader_of
from ...journal.rows import Query, RequestRow, RunRow
from ...presenting.asking import (
    choices_of,
    facts_of,
    is_overdue,
    looking_of,
    mark_of,
    overdue_standing,
    question_of,
    summary_of,
    unrecorded,
)
from ...presenting.audit_words import GrantLimits
from ...presenting.clock import stamp
from ...presenting.grant_words import covered_words, reach_words
from ...presenting.list_row import ListRow, own_words, row_of
from ...presenting.message_context import ADVICE
from ...presenting.reading import read_facts
from ...presenting.recorded import claim_words, deciders, overrules, starts_soon, still_needed
from ...presenting.source import LONGEST, PARTS, RequestSource
from ...presenting.trail import changes_since, result_of
from ..errors import refused
from ..limits import MARKS
from ..undoing import undo_for, undoable
from ..visitor import standing_of
from .beside import beside, edit_of
from .form import DeciderPage, ReaderPage, form_of
from .lately import asked_back, missed
from .on_call import on_call_words
from .pages import PageContext, drawn, failure
from .payload import GUARDED, check_seen, payload_of

router = APIRouter(include_in_schema=False)
_NEWEST = 20


def filters_of(request: HttpRequest) -> Filters:
    """Return the filters that an address names."""
    given = request.query_params
    named = {name: given.get(name, "")[:200].replace("\0", "") for name in ("tool", "agent", "risk", "text")}
    source = RequestSource(*(given.get(name, "")[:LONGEST].replace("\0", "") for name in PARTS))
    group = given.get("group", "") if given.get("group") in PARTS else ""
    place = ListPlace.of_token(given.get("after", "")[:1_000])
    return Filters(**named, mine=given.get("mine") == "1", after=place, source=source, group=group)


Chosen = Annotated[Filters, Depends(filters_of)]


@router.get("/")
async def inbox(at: ReaderPage, chosen: Chosen) -> Response:
    """Show what waits, and the first of it."""
    found = await seen_list(at, chosen)
    try:
        listing = await _drawn(at, found, chosen)
    except KeyturnError as error:
        return failure(at, error)
    first = found.rows[0] if found.rows else None
    detail = await _first(at, first)
    last = None if first is not None else await _last_decided(at)
    return await drawn(at, "inbox.html", chosen=chosen, picked=False, last=last, **listing, **detail)


async def seen_list(at: PageContext, chosen: Filters) -> Listed:
    """Return the list of what waits as this visitor sees it."""

    def shows(row: RequestRow) -> bool:
        return at.visibility.lists(row, mine=chosen.mine, unclaimed=False)

    return await listed(at.app.inbox, chosen, shows)


async def _aside(at: PageContext) -> list[RunRow]:
    """Return runs that were set aside, for those who administer: nothing of them goes on until a person says so."""
    return await at.app.journal.runs(Query(state="set_aside", limit=20)) if at.visitor.administers else []


async def _drawn(at: PageContext, found: Listed, chosen: Filters) -> dict[str, Any]:
    asked = await asked_back(at) if at.visitor.may("read") else []
    over = await missed(at) if at.visitor.may("read") and not chosen.any and chosen.after is None else []
    await at.visibility.reads("list", [*found.rows, *asked, *over])
    groups = grouped(found.rows, chosen.group) if chosen.group else [("", list(found.rows))]
    made = [(name, [drawn_row(at, row) for row in rows]) for name, rows in groups if rows]
    more = "" if found.next is None else found.next.token
    return {
        "by_source": made,
        "listed": len(found.rows),
        "count": found.found,
        "whole": found.whole,
        "more": more,
        "aside": await _aside(at),
        "asked": [drawn_row(at, row) for row in asked],
        "missed_rows": [drawn_row(at, row) for row in over],
    }


def drawn_row(at: PageContext, row: RequestRow) -> ListRow:
    """Return a request as it stands in the list of this visitor."""
    own = own_words(row, at.visitor.id, may=row.state != "open" or at.visibility.may_decide(row.request))
    return row_of(row, at.now)._replace(own=own)


async def _first(at: PageContext, row: RequestRow | None) -> dict[str, Any]:
    """Return what is shown beside the list: nothing of a request whose run cannot be read."""
    try:
        return {} if row is None else await detail_of(at, row)
    except KeyturnError:
        return {}


@router.get("/requests/{name}")
async def request_page(at: DeciderPage, chosen: Chosen, name: str) -> Response:
    """Show one request, whatever became of it; the list stands beside it where there is room.

    An open page draws its request anew as a whole, and says since which line of the log it was open.
    """
    try:
        detail = await detail_of(at, await at.visibility.request(name, shows=True))
        if at.partial:
            return await drawn(at, "_request.html", **detail)
        found = await seen_list(at, chosen) if at.visitor.may("read") else Listed([], 0, whole=True)
        listing = await _drawn(at, found, chosen)
    except KeyturnError as error:
        return failure(at, error)
    return await drawn(at, "inbox.html", chosen=chosen, picked=True, last=None, **listing, **detail)


@router.get("/rows")
async def rows(request: HttpRequest, at: ReaderPage) -> Response:
    """Show rows of an open list as they are now, whatever became of their requests."""
    found: list[RequestRow] = []
    for name in request.query_params.getlist("row")[:SHOWN]:
        with contextlib.suppress(KeyturnError):  # who no longer sees a request keeps the row that they saw
            found.append(await at.visibility.request(name))
    await at.visibility.reads("list", found)
    return await drawn(at, "_rows.html", rows=[drawn_row(at, row) for row in found])


@router.post("/requests/{name}/looked")
async def looked(request: HttpRequest, at: DeciderPage, name: str) -> Response:
    """Note that somebody has the request before them as it was shown, and say how long they still look.

    The script says so once it was on the screen; without one there is a button.
    """
    form: dict[str, str] = {}
    try:
        form = (await form_of(request, at)).whole()
        await at.visibility.request(name)
        request.app.state.limits.spend(MARKS, at.visitor.id)
        await at.inbox.looked(name, **words_of(form))
        row = await at.visibility.request(name)
        looking = looking_of(row, at.visitor.id, await at.app.inbox.now())
    except KeyturnError as error:
        return await told(at, name, error) if form.get("back") else failure(at, error)
    if form.get("back"):
        return RedirectResponse(at.url(f"/requests/{name}"), 303)
    head = await at.app.journal.head(row.run)
    return JSONResponse({"left": 0 if looking is None else looking.left, "head": head})


_MARKS = ("take", "let_go", "snooze", "wake")


@router.post("/requests/{name}/decide")
async def decide(request: HttpRequest, at: DeciderPage, name: str) -> Response:
    """Record what somebody decided about exactly what they were shown."""
    form: dict[str, str] = {}
    try:
        form = (await form_of(request, at)).whole()
        row = await at.visibility.request(name)
        if form.get("verdict") in GUARDED and row.state == "open" and form.get("digest") == row.digest:
            check_seen(await asyncio.to_thread(payload_of, row.request), form)
        if form.get("verdict") in _MARKS:
            request.app.state.limits.spend(MARKS, at.visitor.id)
        if form.get("verdict") == "retry":
            detail = await detail_of(at, row)
            if row.state == "open" and form.get("again") != str(detail["starts"]):
                return await drawn(at, _part(at), **detail | {"again": True, "note": form.get("note", "")})
        await _say(at, name, form)
        if at.partial:
            return await drawn(
                at, "_request.html", **await detail_of(at, await at.visibility.request(name, shows=True))
            )
    except KeyturnError as error:
        return await told(at, name, error, form)
    return RedirectResponse(at.url(f"/requests/{name}"), 303)


async def told(at: PageContext, name: str, error: KeyturnError, form: dict[str, str] | None = None) -> Response:
    """Show what was refused where it was asked for, beside the request as it stands now, with what was typed."""
    try:
        detail = await detail_of(at, await at.visibility.request(name, shows=True))
    except KeyturnError:
        return failure(at, error)
    said = refused(error)
    why = unrecorded(error, at.now)
    detail |= {"unrecorded": why if error.uncertain else why._replace(unsent=_typed(form or {}))}
    return await drawn(at, _part(at), 200 if at.partial else said.status, **detail)


def _part(at: PageContext) -> str:
    """Return the template of a request: the part that a script swaps, or a page of its own."""
    return "_request.html" if at.partial else "request_alone.html"


def _typed(form: dict[str, str]) -> tuple[str, ...]:
    """Return the texts that were typed into a form of a request, each once."""
    texts = [form.get(name, "").strip() for name in ("message", "output", "note")]
    return tuple(dict.fromkeys(text for text in texts if text))


def words_of(form: dict[str, str]) -> dict[str, Any]:
    """Return what goes with any decision: which asking was shown, and a note."""
    digest, revision = form.get("digest"), form.get("revision", "")
    if not digest:
        raise UserError("the form does not say what was shown; reload the page")
    words: dict[str, Any] = {"digest": digest}
    if revision.isascii() and revision.isdigit():
        words["revision"] = int(revision[:9])
    if form.get("note"):
        words["note"] = form["note"]
    return words


async def _say(at: PageContext, name: str, form: dict[str, str]) -> None:
    """Deliver one word; a decision names the digest and revision that stood on the page."""
    inbox = at.inbox
    verdict, words = form.get("verdict", ""), words_of(form)
    if verdict in MARKINGS:
        await inbox.mark(name, verdict, lasts="1h" if verdict == "snooze" else None, **words)
    elif verdict in VERDICTS and verdict != "edit":
        details = _details(verdict, form)
        if verdict == "approve":
            details["undo"] = await undo_of(at, name)
        await inbox.decide(name, verdict, **details, **words)
    else:
        raise UserError(f"no form of this page asks for {verdict!r}")


async def undo_of(at: PageContext, name: str) -> str | None:
    """Return for how long an approval on this page can be undone; None for not."""
    return await undo_for(at.app, at.settings, await at.visibility.request(name))


def _details(verdict: Verdict, form: dict[str, str]) -> Details:
    """Return what a form has to go with a verdict."""
    if verdict == "approve":
        return {"break_glass": form.get("glass") == "yes"}
    if verdict in ("reject", "ask_back"):
        return {"message": form.get("message") or None}
    if verdict == "answer":
        return {"output": form.get("output", "")}
    return {"output": form.get("output") or None} if verdict in ("ran", "did_not_run", "retry") else {}


async def detail_of(at: PageContext, row: RequestRow) -> dict[str, Any]:
    """Return all that the page of one request shows."""
    log = await log_in(at.app.journal, row.run)
    overdue = is_overdue(row, at.now)
    who = overdue_standing(row) if overdue else await standing_of(at.app, at.visitor, row)
    reader = reader_of(at.visitor.directory, at.visitor.id, row, at.now)
    facts = read_facts(row, who, log, reader, await at.app.inbox.notified(row))
    call = log.run.calls.get(row.call)
    by_caller = call is not None and call.proposal.claimed
    until = None if call is None else undo_until(call)
    payload = await asyncio.to_thread(payload_of, row.request)
    return {
        **_shown_of(at, row),
        "blocks": payload.blocks,
        "payload": payload,
        "standing": who,
        "context": facts.context,
        "notified": facts.notified,
        "trail": facts.trail,
        "came": result_of(row.state, facts.trail),
        "recorded": facts.recorded,
        "people": facts.people,
        "missed": facts.missed,
        "starts_soon": starts_soon(by_caller=by_caller),
        "starts_in": 0 if until is None else max(until - at.now, 0) // 100 * 100,
        "caller": row.request.requester if by_caller else "",
        "needed": still_needed(row.request, facts.people) if facts.people else "",
        "granted": _grant_of(log, row) if row.by == at.visitor.id else None,
        "overdue": overdue,
        "changes": changes_since(facts.trail, at.since, at.visitor.id) if at.since else [],
        "thread": facts.thread,
        "edited": await asyncio.to_thread(edit_of, log.steps, row.call),  # arguments are long
        "starts": sum(mark.kind == "started" for mark in facts.trail),
        "head": len(log.steps),
        "signing": _signing(at) if who.signs else None,
        **await beside(at, row),
    }


def _shown_of(at: PageContext, row: RequestRow) -> dict[str, Any]:
    """Return what the row of a request itself says, and what a page begins with."""
    shown = row.request
    return {
        "row": row,
        "shown": shown,
        "own_row": drawn_row(at, row),
        "mark": mark_of(row),
        "question": question_of(row),
        "summary": summary_of(shown),
        "choices": choices_of(shown),
        "facts": facts_of(row, at.now, partial(stamp, zone=at.zone)),
        "advice": ADVICE,
        "on_call": on_call_words(at, row),
        "overrules": overrules(shown),
        "deciders": deciders(row),
        "undoable": undoable(at.settings, row),
        "claimed": shown.claimed_by(at.now),
        "claim": claim_words(shown, at.visitor.id, at.now, partial(stamp, zone=at.zone)) if row.state == "open" else "",
        "put_off": shown.is_snoozed(at.visitor.id, at.now),
        "looking": looking_of(row, at.visitor.id, at.now),
        "command": _command(row),
        "unrecorded": None,
        "again": False,
        "note": "",
    }


def _grant_of(log: Log, row: RequestRow) -> GrantLimits | None:
    """Return what the grant covers that the decision of a request created; None where it created none."""
    for step in log.steps:
        decided = any(isinstance(event, ev.CallDecided) and event.decision.call == row.call for event in step.events)
        made = [event.grant for event in step.events if isinstance(event, ev.GrantGiven)] if decided else []
        if made:
            terms = made[-1]
            return GrantLimits(covered_words(terms.where), terms.expires_at, terms.uses, reach_words(terms.reach).name)
    return None


def _command(row: RequestRow) -> str:
    """Return how a request is decided with a signature in a terminal."""
    word, rest = {"external": ("answer", " TEXT"), "in_doubt": ("resolve", " ran")}.get(row.kind, ("approve", ""))
    return f"keyturn {word} {row.id[:12]}{rest} --digest {row.digest[:16]} --sign"


class SigningKeys(NamedTuple):
    """Holds whose keys could sign here: passkeys that count, keys of a terminal that do, and how many count not yet."""

    passkeys: list[str]
    others: list[str]
    waiting: int


def _signing(at: PageContext) -> SigningKeys:
    """Return which keys of a visitor sign."""
    found = at.visitor.directory.keys.values()
    own = [key for key in found if key.person == at.visitor.id and key.revoked_at is None]
    good = [key for key in own if key.counts]
    passkeys = [key.label or key.id for key in good if key.scheme == "passkey"]
    others = [f"{key.label or key.id} ({key.scheme})" for key in good if key.scheme != "passkey"]
    return SigningKeys(passkeys, others, len(own) - len(good))


async def _last_decided(at: PageContext) -> RequestRow | None:
    found: list[RequestRow] = []
    for state in ("approve", "reject", "edit", "answer", "asked_back"):
        rows = await at.app.journal.requests(Query(state=state, newest=True, limit=_NEWEST))
        found += [row for row in rows if row.closed_at is not None and at.visibility.sees(row)][:1]
    return max(found, key=lambda row: row.closed_at or 0, default=None)
