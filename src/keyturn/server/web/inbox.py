"""The inbox and the request: what waits, and one question at a time."""

from __future__ import annotations

from hmac import compare_digest
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from ...core.errors import KeyturnError, NotAllowed, UserError
from ...engine.run.log_cache import log_in
from ...inbox.asking import (
    Standing,
    choices_of,
    context_of,
    facts_of,
    mark_of,
    question_of,
    row_of,
    standing,
    summary_of,
    votes_of,
)
from ...inbox.clock import in_ms
from ...inbox.listing import Filters, listed
from ...inbox.trail import trail_of
from ...journal.rows import Query, RequestRow
from ..errors import refused
from .blocks import blocks_of
from .pages import Here, failure, here, page

router = APIRouter(include_in_schema=False)
At = Annotated[Here, Depends(here)]


def filters_of(request: HttpRequest) -> Filters:
    """Return the filters that an address names."""
    given = request.query_params
    named = {name: given.get(name, "")[:200] for name in ("tool", "agent", "risk", "text")}
    return Filters(**named, mine=given.get("mine") == "1")


Chosen = Annotated[Filters, Depends(filters_of)]


@router.get("/")
async def inbox(at: At, chosen: Chosen) -> Response:
    """Show what waits, and the first of it."""
    rows, count, whole = await listed(at.app.inbox, chosen, at.visitor.login)
    first = rows[0] if rows else None
    detail = await _first(at, first)
    last = None if first is not None else await _last_decided(at)
    made = [row_of(row, at.now) for row in rows]
    return page(at, "inbox.html", rows=made, count=count, whole=whole, chosen=chosen, picked=False, last=last, **detail)


async def _first(at: Here, row: RequestRow | None) -> dict[str, Any]:
    """Return what is shown beside the list: nothing of a request whose run cannot be read."""
    try:
        return {} if row is None else await detail_of(at, row)
    except KeyturnError:
        return {}


@router.get("/requests/{name}")
async def request_page(at: At, chosen: Chosen, name: str) -> Response:
    """Show one request, whatever became of it; the list stands beside it where there is room."""
    try:
        row = await at.app.inbox.get(name)
        detail = await detail_of(at, row)
    except KeyturnError as error:
        return failure(at, error)
    if at.partial:
        return page(at, "_request.html", **detail)
    rows, count, whole = await listed(at.app.inbox, chosen, at.visitor.login)
    made = [row_of(each, at.now) for each in rows]
    return page(at, "inbox.html", rows=made, count=count, whole=whole, chosen=chosen, picked=True, last=None, **detail)


@router.get("/requests/{name}/outcome")
async def outcome(at: At, name: str) -> Response:
    """Show what became of a request so far: the part of its page that is live."""
    try:
        return page(at, "_outcome.html", **await detail_of(at, await at.app.inbox.get(name)))
    except KeyturnError as error:
        return failure(at, error)


@router.post("/requests/{name}/looked")
async def looked(request: HttpRequest, at: At, name: str) -> Response:
    """Note that somebody has the request before them; the script says so once it was on the screen."""
    try:
        await form_of(request, at)
        await at.app.inbox.looked(name, by=at.visitor.login)
    except KeyturnError as error:
        return failure(at, error)
    return Response(status_code=204)


@router.post("/requests/{name}/decide")
async def decide(request: HttpRequest, at: At, name: str, verdict: Annotated[str, Form()]) -> Response:
    """Record what somebody decided about exactly what they were shown."""
    try:
        form = await form_of(request, at)
        await _say(at, name, verdict, form)
    except KeyturnError as error:
        return await told(at, name, error)
    if at.partial:
        return page(at, "_request.html", **await detail_of(at, await at.app.inbox.get(name)))
    return RedirectResponse(at.url(f"/requests/{name}"), 303)


async def told(at: Here, name: str, error: KeyturnError) -> Response:
    """Show what was refused where it was asked for, beside the request as it stands now."""
    try:
        row = await at.app.inbox.get(name)
    except KeyturnError:
        return failure(at, error)
    said = refused(error)
    detail = await detail_of(at, row) | {"refusal": said}
    return page(
        at, "_request.html" if at.partial else "request_alone.html", 200 if at.partial else said.status, **detail
    )


async def form_of(request: HttpRequest, at: Here) -> dict[str, str]:
    """Return the fields of a form of this visitor's own session."""
    form = {key: str(value) for key, value in (await request.form()).items()}
    if at.visitor.via == "session" and not compare_digest(form.get("form_mark", ""), at.visitor.form):
        raise NotAllowed("this form is not of your session; load the page again")
    return form


def words_of(form: dict[str, str]) -> dict[str, Any]:
    """Return what goes with any decision: which asking was shown, and a note."""
    digest, revision = form.get("digest"), form.get("revision", "")
    if not digest:
        raise UserError("the form does not say what was shown; load the page again")
    words: dict[str, Any] = {"digest": digest}
    if revision.isascii() and revision.isdigit():
        words["revision"] = int(revision[:9])
    if form.get("note"):
        words["note"] = form["note"]
    return words


async def _say(at: Here, name: str, verdict: str, form: dict[str, str]) -> None:
    """Deliver one word; a decision names the digest and revision that stood on the page."""
    inbox, by = at.app.inbox, at.visitor.login
    words = words_of(form)
    message = form.get("message") or None
    match verdict:
        case "approve":
            await inbox.approve(name, by=by, break_glass=form.get("glass") == "yes", **words)
        case "reject":
            await inbox.reject(name, by=by, message=message, **words)
        case "ask_back":
            await inbox.ask_back(name, message or "", by=by, **words)
        case "answer":
            await inbox.answer(name, form.get("output", ""), by=by, **words)
        case "ran" | "did_not_run" | "retry":
            await inbox.resolve(name, verdict, form.get("output") or None, by=by, **words)
        case "take":
            await inbox.take(name, by=by, **words)
        case "let_go":
            await inbox.let_go(name, by=by, **words)
        case "snooze":
            await inbox.snooze(name, by=by, lasts="1h", **words)
        case "wake":
            await inbox.wake(name, by=by, **words)
        case "withdraw":
            await inbox.withdraw(name, by=by, **words)
        case _:
            raise UserError(f"a form of ours never says {verdict!r}")


async def detail_of(at: Here, row: RequestRow) -> dict[str, Any]:
    """Return all that the page of one request shows."""
    shown = row.request
    log = await log_in(at.app.journal, row.run)
    who = await _who(at, row)
    given: Any = shown.requests if row.kind == "external" else shown.params
    return {
        "row": row,
        "shown": shown,
        "mark": mark_of(row),
        "question": question_of(row),
        "blocks": blocks_of(shown.preview, given),
        "summary": summary_of(shown),
        "choices": choices_of(shown),
        "facts": facts_of(row, at.now),
        "votes": votes_of(shown, at.now),
        "standing": who,
        "context": context_of(log, row),
        "trail": trail_of(log, row.call),
        "refusal": None,
        "claimed": "" if shown.claim is None or in_ms(shown.claim.until) <= at.now else shown.claim.by,
        "put_off": any(each.by == at.visitor.id and in_ms(each.until) > at.now for each in shown.snoozed),
        "head": len(log.steps),
    }


async def _who(at: Here, row: RequestRow) -> Standing:
    terms = row.request.terms_now
    try:
        who = await at.app.people.decider(at.visitor.id, "authenticated", terms=terms, requester=row.request.requester)
    except NotAllowed as error:
        return Standing((), str(error))
    if at.visitor.person.kind == "machine":
        return Standing((), "No machine decides.")
    return standing(row, who, may=at.visitor.may("decide"))


async def _last_decided(at: Here) -> RequestRow | None:
    for state in ("approve", "reject", "edit", "answer"):
        rows = await at.app.journal.requests(Query(state=state, newest=True, limit=1))
        if rows:
            return rows[0]
    return None
