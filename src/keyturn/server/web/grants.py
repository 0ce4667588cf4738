"""The grants: what runs, or is rejected, without anybody being asked, how long still, and how it is ended."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...core.errors import KeyturnError, NotPending
from ...core.records import GrantTerms
from ...core.states import OVER
from ...journal.rows import GrantRow, Query
from ...presenting.grant_words import reach_words, where_words
from ..errors import Refused
from ..visible_pages import visible_page
from .form import PageForm, ReaderPage, change, decides
from .pages import PageContext, failure, page
from .shown import VisibleHtml, ready

router = APIRouter(include_in_schema=False)

SHOWN = 50


class ListedGrant(NamedTuple):
    """Holds one grant as it stands in the list; `ended` says why it covers nothing any more."""

    row: GrantRow
    terms: GrantTerms | None
    where: list[VisibleHtml]
    reach: str
    ended: str


@router.get("/grants")
async def grants_page(request: HttpRequest, at: ReaderPage) -> Response:
    """List the grants."""
    return await _drawn(at, None, request)


@router.post("/grants/revoke")
async def revoke(request: HttpRequest, at: ReaderPage) -> Response:
    """Revoke a grant."""

    async def make(form: PageForm) -> str:
        decides(at)
        run, grant = form.text("run"), form.text("grant")
        await at.visibility.run(run)
        if not await at.app.journal.grants(Query(run=run, id=grant, limit=1)):
            raise NotPending("there is no such grant; the list of grants says which there are")
        await at.inbox.revoke(run, grant)
        return f"/grants?{urlencode({'state': 'revoked', 'done': grant})}"

    return await change(request, at, make, lambda said: _drawn(at, said, request))


async def _drawn(at: PageContext, refusal: Refused | None, request: HttpRequest) -> Response:
    state = "revoked" if request.query_params.get("state") == "revoked" else "open"
    run, _, name = request.query_params.get("after", "")[:250].replace("\0", "").partition("/")
    after = (0, f"{run}/{name}") if name else None
    query = Query(state=state, limit=SHOWN, after=after)
    read = at.app.journal.grants
    rows, place = await visible_page(query, read, at.visibility.grants, lambda row: (0, f"{row.run}/{row.id}"))
    try:
        if rows:  # their predicates hold arguments
            await at.visibility.reads_of("list", "grants")
    except KeyturnError as error:
        return failure(at, error)
    over = await _over(at, rows)
    made = [_standing(row, at.now, over) for row in rows]
    more = "" if place is None else place[1]
    status = 200 if refusal is None else refusal.status
    done = next((each for each in made if each.row.revoked and each.row.id == request.query_params.get("done")), None)
    values = {"state": state, "more": more, "first": after is None, "refusal": refusal, "done": done}
    made.sort(key=lambda each: each is not done)  # the one that was just revoked comes first
    return page(at, "grants.html", status, rows=made, **values)


async def _over(at: PageContext, rows: list[GrantRow]) -> frozenset[str]:
    """Return those runs of the grants that are over, so that a grant of the run alone covers nothing."""
    found = set[str]()
    for run in {row.run for row in rows if not row.reach}:
        found |= {each.run for each in await at.app.journal.runs(Query(run=run)) if each.status in (*OVER, "erased")}
    return frozenset(found)


def _standing(row: GrantRow, now: int, over: frozenset[str]) -> ListedGrant:
    if row.damaged:
        return ListedGrant(row, None, [], "", "its row was altered: keyturn check says more")
    terms = msgspec.json.decode(row.body, type=GrantTerms)
    ended = ""
    if row.revoked:
        ended = "revoked"
    elif terms.expires_at is not None and terms.expires_at <= now:
        ended = "out of time"
    elif terms.uses is not None and row.uses >= terms.uses:
        ended = "used up"
    elif row.run in over:
        ended = "over with its run"
    where = [ready(each) for each in where_words(terms.where)]
    return ListedGrant(row, terms, where, reach_words(row.reach).name, ended)
