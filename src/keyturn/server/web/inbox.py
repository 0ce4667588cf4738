"""The inbox and the request: what waits, and one question at a time."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Form
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from ...core.errors import KeyturnError, NotAllowed, UserError
from ...engine.run.log_cache import log_in
from ...journal.rows import Query, RequestRow
from ..errors import refused
from .asking import Standing, context_of, facts_of, mark_of, question_of, row_of, standing, votes_of
from .blocks import blocks_of
from .pages import Here, failure, here, page
from .trail import trail_of

router = APIRouter(include_in_schema=False)
At = Annotated[Here, Depends(here)]

SHOWN = 50
#: How many open requests are looked at to put those first whose time runs out first.
SORTED = 500


class Filters(msgspec.Struct, frozen=True):
    """Holds what the list is narrowed to.

    >>> Filters(tool="pay").any
    True
    """

    tool: str = ""
    agent: str = ""
    risk: str = ""
    text: str = ""
    mine: bool = False

    @property
    def any(self) -> bool:
        """Return whether anything is left out."""
        return self != Filters()


def filters_of(request: HttpRequest) -> Filters:
    """Return the filters that an address names."""
    given = request.query_params
    named = {name: given.get(name, "")[:200] for name in ("tool", "agent", "risk", "text")}
    return Filters(**named, mine=given.get("mine") == "1")


Chosen = Annotated[Filters, Depends(filters_of)]


async def listed(at: Here, chosen: Filters) -> tuple[list[RequestRow], int, bool]:
    """Return the rows of the list, how many wait, and whether those are all that were looked at.

    Those whose time runs out first come first, as far as they were looked at; then the oldest.
    """
    wanted: dict[str, Any] = {"limit": SORTED}
    if chosen.tool:
        wanted["tool"] = chosen.tool
    if chosen.agent:
        wanted["agent"] = chosen.agent
    rows = list(await at.app.inbox.list(for_=at.visitor.login if chosen.mine else None, **wanted))
    whole = len(rows) < SORTED
    if chosen.risk:
        rows = [row for row in rows if mark_of(row) == chosen.risk]
    if chosen.text:
        asked = chosen.text.casefold()
        rows = [row for row in rows if asked in f"{row.tool} {row.agent} {row.reason} {row.body}".casefold()]
    far = 1 << 62
    rows.sort(key=lambda row: (row.expires_at or far, row.asked_at))
    return rows[:SHOWN], len(rows), whole


@router.get("/")
async def inbox(at: At, chosen: Chosen) -> Response:
    """Show what waits, and the first of it."""
    rows, count, whole = await listed(at, chosen)
    first = rows[0] if rows else None
    detail = {} if first is None else await _detail(at, first)
    last = None if first is not None else await _last_decided(at)
    made = [row_of(row, at.now) for row in rows]
    return page(at, "inbox.html", rows=made, count=count, whole=whole, chosen=chosen, picked=False, last=last, **detail)


@router.get("/requests/{name}")
async def request_page(at: At, chosen: Chosen, name: str) -> Response:
    """Show one request, whatever became of it; the list stands beside it where there is room."""
    try:
        row = await at.app.inbox.get(name)
    except KeyturnError as error:
        return failure(at, error)
    detail = await _detail(at, row)
    if at.partial:
        return page(at, "_request.html", **detail)
    rows, count, whole = await listed(at, chosen)
    made = [row_of(each, at.now) for each in rows]
    return page(at, "inbox.html", rows=made, count=count, whole=whole, chosen=chosen, picked=True, last=None, **detail)


@router.get("/requests/{name}/outcome")
async def outcome(at: At, name: str) -> Response:
    """Show what became of a request so far: the part of its page that is live."""
    try:
        row = await at.app.inbox.get(name)
    except KeyturnError as error:
        return failure(at, error)
    return page(at, "_outcome.html", **await _detail(at, row))


@router.post("/requests/{name}/decide")
async def decide(request: HttpRequest, at: At, name: str, verdict: Annotated[str, Form()]) -> Response:
    """Record what somebody decided about exactly what they were shown."""
    form = {key: str(value) for key, value in (await request.form()).items()}
    try:
        if at.visitor.via == "session" and form.get("form_mark") != at.visitor.form:
            raise NotAllowed("this form is not of your session; load the page again")
        await _say(at, name, verdict, form)
    except KeyturnError as error:
        return await _told(at, name, error)
    if at.partial:
        return page(at, "_request.html", **await _detail(at, await at.app.inbox.get(name)))
    return RedirectResponse(at.url(f"/requests/{name}"), 303)


async def _told(at: Here, name: str, error: KeyturnError) -> Response:
    """Show what was refused where it was asked for, beside the request as it stands now."""
    try:
        row = await at.app.inbox.get(name)
    except KeyturnError:
        return failure(at, error)
    said = refused(error)
    detail = await _detail(at, row) | {"refusal": said}
    return page(
        at, "_request.html" if at.partial else "request_alone.html", 200 if at.partial else said.status, **detail
    )


async def _say(at: Here, name: str, verdict: str, form: dict[str, str]) -> None:
    """Deliver one word; a decision names the digest and revision that stood on the page."""
    inbox, by = at.app.inbox, at.visitor.login
    words: dict[str, Any] = {"digest": form.get("digest") or None}
    revision = form.get("revision", "")
    if revision.isascii() and revision.isdigit():
        words["revision"] = int(revision[:9])
    if words["digest"] is None:
        raise UserError("the form does not say what was shown; load the page again")
    if form.get("note"):
        words["note"] = form["note"]
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


async def _detail(at: Here, row: RequestRow) -> dict[str, Any]:
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
        "facts": facts_of(row, at.now),
        "votes": votes_of(shown, at.now),
        "standing": who,
        "context": context_of(log, row),
        "trail": trail_of(log, row.call),
        "refusal": None,
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
