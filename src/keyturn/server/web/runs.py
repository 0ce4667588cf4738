"""The runs, and one run: what happened in it line by line, what waits in it, and what can be done about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...core.codec import Log
from ...core.errors import KeyturnError, UserError
from ...core.states import OVER
from ...engine.driving.quota_logs import AGENT as COUNTS
from ...engine.run.log_cache import log_in
from ...engine.session.owner import AGENT as OWNERS
from ...journal.rows import Query, RequestRow, RunRow
from ...presenting.list_row import ListRow, row_of
from ...render.escape import clip
from ..errors import Refused
from ..visible_pages import visible_page
from .form import PageForm, ReaderPage, change, decides, may_control
from .pages import PageContext, drawn, failure, page
from .shown import VisibleHtml, ready
from .timeline import timeline

router = APIRouter(include_in_schema=False)

SHOWN = 50
STATUSES = ("waiting", "running", "finished", "failed", "set_aside", "cancelled", "erased", "damaged")
_WAITING = 20
# A log up to this many lines is read to say for whom a run is that never asked anybody.
_SHORT = 200
_OUTPUT = 8_000


class ListedRun(NamedTuple):
    """Holds one run as it stands in the list, and for whom it runs, where that is known."""

    row: RunRow
    requester: str


@router.get("/runs")
async def runs_page(request: HttpRequest, at: ReaderPage) -> Response:
    """List runs, the newest first."""
    given = request.query_params
    chosen = {name: given.get(name, "")[:200].replace("\0", "") for name in ("status", "agent", "run")}
    after = _key(given.get("after", "").replace("\0", ""))
    begins, read = chosen["run"], at.app.journal.runs
    whole = begins if begins and await read(Query(run=begins)) else None  # else runs are shown whose id begins so
    named: Any = {"state": chosen["status"] or None, "agent": chosen["agent"] or None, "run": whole}
    query = Query(newest=True, limit=SHOWN, after=after, **named)

    async def seen(rows: Sequence[RunRow]) -> list[RunRow]:
        return [row for row in await at.visibility.runs(rows) if row.run.startswith(begins)]

    rows, more = await visible_page(query, read, seen, lambda row: (row.started_at, row.run))
    shown = [row for row in rows if row.agent not in (COUNTS, OWNERS) or chosen["agent"] or chosen["run"]]
    made = [ListedRun(row, await _requester(at, row)) for row in shown]
    older = "" if more is None else f"{more[0]}.{more[1]}"
    agents = sorted(at.app.agents)
    return page(
        at, "runs.html", rows=made, chosen=chosen, older=older, first=after is None, agents=agents, statuses=STATUSES
    )


@router.get("/runs/{name}")
async def run_page(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Show one run."""
    return await _drawn(at, name, None, request)


@router.post("/runs/{name}/cancel")
async def cancel(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Cancel a run."""

    async def make(form: PageForm) -> str:
        decides(at)
        await at.visibility.run(name)
        await at.app.inbox.cancel(name, by=at.visitor.login, why=form.text("why"))
        return f"/runs/{name}"

    return await change(request, at, make, lambda said: _drawn(at, name, said, request))


@router.post("/runs/{name}/message")
async def message(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Add a message that the run's model reads at its next turn."""

    async def make(form: PageForm) -> str:
        may_control(at)
        await at.visibility.may_control(name)
        if not form.text("text"):
            raise UserError("write what the model is to read")
        await at.app.send(name, form.text("text"))
        return f"/runs/{name}"

    return await change(request, at, make, lambda said: _drawn(at, name, said, request))


@router.post("/runs/{name}/resume")
async def resume(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Resume a run that failed or was set aside, from where it stopped."""

    async def make(_form: PageForm) -> str:
        may_control(at)
        await at.visibility.may_control(name)
        await at.app.resume(name, by=at.visitor.login)
        return f"/runs/{name}"

    return await change(request, at, make, lambda said: _drawn(at, name, said, request))


@router.post("/runs/{name}/fork")
async def fork(request: HttpRequest, at: ReaderPage, name: str) -> Response:
    """Start a new run from the first lines of this one."""

    async def make(form: PageForm) -> str:
        may_control(at)
        await at.visibility.may_control(name)
        line = form.text("line")
        if not (line.isascii() and line.isdigit() and int(line[:9]) > 0):
            raise UserError("name the last line that the new run begins with, a number from 1")
        made = await at.app.fork(name, int(line[:9]))
        return f"/runs/{made.id}"

    return await change(request, at, make, lambda said: _drawn(at, name, said, request))


async def _drawn(at: PageContext, name: str, refusal: Refused | None, request: HttpRequest) -> Response:
    try:
        row = await at.visibility.run(name)
        await at.visibility.reads_log(name)
    except KeyturnError as error:
        return failure(at, error)
    try:
        log = await log_in(at.app.journal, name)
    except KeyturnError as error:
        return page(at, "run.html", 200, row=row, log=None, damage=str(error), refusal=refusal, waits=[], facts=[])
    told = await asyncio.to_thread(timeline, log, _number(request.query_params.get("from", "")))  # arguments are long
    open = await at.app.journal.requests(Query(run=name, state="open", limit=_WAITING))
    waits = [each for each in open if at.visibility.sees(each)]
    values: dict[str, Any] = {
        "row": row,
        "log": told,
        "damage": "",
        "refusal": refusal,
        "waits": _rows(waits, at.now),
        "facts": list(_facts(log, row)),
        "came": _outcome(log),
        "over": row.status in (*OVER, "erased"),
        "fork_at": _number(request.query_params.get("fork", "")) or told.total,
        "forking": "fork" in request.query_params,
    }
    return await drawn(at, "run.html", 200 if refusal is None else refusal.status, **values)


def _rows(rows: Any, now: int) -> list[ListRow]:
    found: list[RequestRow] = list(rows)
    return [row_of(each, now) for each in found]


def _facts(log: Log, row: RunRow) -> list[tuple[str, str, str]]:
    """Return what is known of a run: our word, data, and a path where it leads somewhere."""
    run = log.run
    about = run.about
    forked: Any = about.get("forked_from") or {}
    used = run.usage
    words = f"{used.input_tokens:,} tokens read, {used.output_tokens:,} written" if used.total_tokens else ""
    told = [
        ("runs for", run.requester or "", ""),
        ("session", str(about.get("session") or ""), ""),
        ("workflow", row.workflow, ""),
        ("at work", run.last_agent if run.last_agent != row.agent else "", ""),
        ("models used", words, ""),
        ("forked from", str(forked.get("run") or ""), f"/runs/{forked.get('run')}"),
    ]
    return [each for each in told if each[1]]


def _outcome(log: Log) -> VisibleHtml | None:
    """Return what a run ended with, as far as there is something to read."""
    output = log.run.output
    if output is None:
        return None
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2, default=str)
    return ready(clip(text, _OUTPUT))


async def _requester(at: PageContext, row: RunRow) -> str:
    """Return for whom a run is: from one of its requests, else from its log where that is short."""
    asked = await at.app.journal.requests(Query(run=row.run, limit=1))
    if asked and asked[0].state != "damaged":
        return asked[0].request.requester or ""
    if row.status in ("erased", "damaged") or await at.app.journal.head(row.run) > _SHORT:
        return ""
    try:
        return (await log_in(at.app.journal, row.run)).run.requester or ""
    except KeyturnError:
        return ""


def _key(text: str) -> tuple[int, str] | None:
    time, _, run = text.partition(".")
    return (int(time[:15]), run[:200]) if time.isascii() and time.isdigit() and run else None


def _number(text: str) -> int | None:
    return int(text[:9]) if text.isascii() and text.isdigit() else None
