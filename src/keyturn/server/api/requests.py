"""List and show requests, and say of them that one is on it; what waits can be waited for."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Annotated, Any, Literal, cast

import msgspec
from fastapi import Depends
from fastapi import Query as Param

from ...directory.settings import RECORD_READS
from ...engine.run.log_cache import log_in
from ...inbox.listing import grouped
from ...inbox.readers import reader_of
from ...journal.rows import Query, RequestRow
from ...presenting.facts import RequestFacts
from ...presenting.reading import read_facts
from ...presenting.source import LONGEST, RequestSource
from ...wire import bodies
from ...wire.detail import RequestDetail
from ...wire.responses import Done, Form, RequestGroup, RequestPage, RequestSeen
from ..streams import EventStream, event
from ..visible_pages import of_one_size, visible_page
from ..visitor import standing_of
from .paging import After, IdPath, Limit, Name, Newest, after_of, key_of, plain
from .refusing import Refusal
from .routes import ApiContext, Call, Routes, answer, taken
from .run_events import LastId
from .waiting import Wait, changes_within

routes = Routes("requests")
_EVERY = 15.0
State = Literal[
    "open",
    "approve",
    "edit",
    "reject",
    "answer",
    "asked_back",
    "ran",
    "did_not_run",
    "retry",
    "expire",
    "right",
    "wrong",
    "drill_passed",
    "drill_failed",
    "void",
    "damaged",
    "all",
]
Kind = Literal["approval", "external", "in_doubt", "review"]
For = Annotated[Literal["me"] | None, Param(alias="for", description="Only those that you may decide.")]
Unclaimed = Annotated[bool, Param(description="None that somebody else is on.")]
Part = Literal["framework", "host", "folder", "session"]
Group = Annotated[Part | None, Param(description="Group the page by this part of where its requests come from.")]
Stated = Annotated[str | None, Param(min_length=1, max_length=LONGEST)]
Token = Annotated[str | None, Param(max_length=64, description="The `token` of the page before: wait for another.")]


class RequestFilter(msgspec.Struct, frozen=True):
    """Says which requests somebody lists."""

    query: Query
    mine: bool
    unclaimed: bool
    source: RequestSource
    group: Part | None


async def _named(
    state: State = "open",
    tool: Name = None,
    agent: Name = None,
    run: Name = None,
    kind: Kind | None = None,
) -> dict[str, Any]:
    plain(tool, agent, run)
    return {"state": None if state == "all" else state, "tool": tool, "agent": agent, "run": run, "kind": kind}


async def _sourced(
    framework: Stated = None, host: Stated = None, folder: Stated = None, session: Stated = None
) -> RequestSource:
    plain(framework, host, folder, session)
    return RequestSource(framework or "", host or "", folder or "", session or "")


async def _wanted(
    named: Annotated[dict[str, Any], Depends(_named)],
    source: Annotated[RequestSource, Depends(_sourced)],
    limit: Limit = 50,
    after: After = None,
    newest: Newest = False,
    mine: For = None,
    unclaimed: Unclaimed = False,
    group: Group = None,
) -> RequestFilter:
    query = Query(**named, limit=limit, after=after_of(after), newest=newest)
    return RequestFilter(query, mine == "me", unclaimed, source, group)


Selected = Annotated[RequestFilter, Depends(_wanted)]


def _size(row: RequestRow) -> int:
    return len(row.body)


async def page_of(here: Call, wanted: RequestFilter) -> RequestPage:
    """Return a page of requests as it is now, with the token that names it."""

    async def seen(rows: Sequence[RequestRow]) -> list[RequestRow]:
        named: dict[str, Any] = {"mine": wanted.mine, "unclaimed": wanted.unclaimed, "source": wanted.source}
        return [row for row in rows if here.visibility.lists(row, **named)]

    rows, more = await visible_page(wanted.query, here.app.journal.requests, seen, lambda row: row.place, _size)
    await here.visibility.reads("list", rows)
    shown = [RequestSeen.of(row) for row in rows]
    token = hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:32]
    groups = [] if wanted.group is None else grouped(rows, wanted.group)
    parts = [RequestGroup(name, [row.id for row in found]) for name, found in groups]
    return RequestPage(shown, key_of(*more) if more else None, token, parts)


@routes.add("GET", "/requests", scope="read", gives=RequestPage)
async def list_requests(here: ApiContext, wanted: Selected, wait: Wait = 0, token: Token = None) -> Any:
    """List requests, by when they were asked; with `wait` and `token`, once the page is another one."""
    page = await page_of(here, wanted)
    if token is not None and page.token == token:
        async for _ in changes_within(here, wait):
            async with here.look():
                page = await page_of(await here.anew(), wanted)
            if page.token != token:
                break
    return answer(page)


@routes.add("GET", "/requests/stream", scope="read", gives=RequestPage, media="text/event-stream")
async def stream_requests(here: ApiContext, wanted: Selected, last_event_id: LastId = None) -> Any:
    """Stream a page of requests: as it is now, and again whenever it is another one.

    Each event is the whole page and its id the page's token, so that whoever comes back has what is so now.
    """
    places = here.request.app.state.places
    places.check(here.visitor.id)
    pages = _pages(here, wanted, last_event_id)
    return EventStream(
        pages, ended=here.live.ended, places=places, person=here.visitor.id, still=here.anew, refusals=(Refusal,)
    )


async def _pages(here: Call, wanted: RequestFilter, token: str | None) -> AsyncGenerator[bytes]:
    """Yield pages; those who see the same page share one look, and whoever is let in no more is shown nothing more."""
    timed = wanted.mine or wanted.unclaimed  # what was put off, or is somebody's, is so until a time
    async with contextlib.aclosing(here.live.changes(_EVERY)) as changes:
        async for changed in changes:
            admitted = ("admitted", here.visitor.id, here.visitor.login.token)
            now: Call = await (here.live.once(admitted, here.anew) if changed else here.anew())
            if not (changed or timed):
                continue
            noted = bool(now.visitor.directory.settings.get(RECORD_READS))  # then each of them is put on record
            whose = "" if now.visibility.whole and not (timed or noted) else now.visitor.id
            look = partial(_encoded, now, wanted)
            async with here.look():
                name, body = await (here.live.once(("requests", wanted, whose), look) if changed else look())
            if name != token:
                token = name
                yield event(body, id=name, name="requests")
            del body  # it is not kept while the stream waits


async def _encoded(here: Call, wanted: RequestFilter) -> tuple[str, bytes]:
    page = await page_of(here, wanted)
    return page.token, msgspec.json.encode(page)


@routes.add("GET", "/requests/{request}", scope=("read", "decide"), gives=RequestSeen, errors=(404,))
async def get_request(here: ApiContext, request: IdPath) -> Any:
    """Return a request, whatever became of it."""
    return answer(RequestSeen.of(await here.visibility.request(request, shows=True)))


@routes.add("GET", "/requests/{request}/detail", scope="read", gives=RequestDetail, errors=(404,))
async def get_detail(here: ApiContext, request: IdPath) -> Any:
    """Return a request with its context: what you can do, the conversation, what happened, and who was notified."""
    row = await here.visibility.request(request, shows=True)
    stands, now = await standing_of(here.app, here.visitor, row), await here.app.inbox.now()
    if row.state == "damaged":
        return answer(RequestDetail.of(RequestFacts(row, stands), now))
    log = await log_in(here.app.journal, row.run)
    notified = await here.app.inbox.notified(row)
    reader = reader_of(here.visitor.directory, here.visitor.id, row, now)
    return answer(RequestDetail.of(read_facts(row, stands, log, reader, notified), now))


@routes.add("GET", "/requests/{request}/form", scope=("read", "decide"), gives=Form, errors=(404,))
async def get_form(here: ApiContext, request: IdPath) -> Any:
    """Return what an edit form is made of: the schema of the tool's arguments, and what would run now."""
    row = await here.visibility.request(request, shows=True)
    if row.state != "open":
        return answer(Form(row.id, row.digest, False, None, row.params))
    item = await here.app.inbox.item(request)
    told: Any = None if item.tool is None else item.tool.spec().get("schema")
    schema = cast("dict[str, Any]", told) if isinstance(told, dict) else None
    editable = item.tool is not None and "edit" in row.request.verdicts
    return answer(Form(row.id, row.digest, editable, schema, row.params))


@routes.add("GET", "/requests/{request}/alike", scope="read", gives=RequestPage, errors=(404,))
async def list_alike(here: ApiContext, request: IdPath, after: After = None) -> Any:
    """Return the open requests of the same tool with the same arguments, of whatever run.

    So many requests of the tool are looked through for one page; a page may be short, or empty, though others follow.
    """
    row = await here.visibility.request(request)
    if row.state != "open":
        return answer(RequestPage([], None, ""))
    page, more = await here.app.inbox.alike_page(row, Query(after=after_of(after)))
    visible = [each for each in page if here.visibility.sees(each)]
    found = of_one_size(visible, _size)
    if len(found) < len(visible):
        more = found[-1].place
    await here.visibility.reads("list", found)
    shown = [RequestSeen.of(each) for each in found]
    token = hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:32]
    return answer(RequestPage(shown, key_of(*more) if more else None, token))


@routes.add("POST", "/requests/{request}/look", scope="decide", takes=bodies.Shown, gives=Done, errors=(404, 409))
async def look_at(here: ApiContext, request: IdPath, body: Annotated[bodies.Shown, taken(bodies.Shown)]) -> Any:
    """Note that you have a request on the screen, as it was shown: terms may want that before you approve."""
    here.marks()
    await here.visibility.request(request)
    await here.inbox.looked(request, **named(body))
    return answer(Done())


@routes.add(
    "POST", "/requests/{request}/review", scope="decide", takes=bodies.Review, gives=RequestSeen, errors=(404, 409)
)
async def review_request(
    here: ApiContext, request: IdPath, body: Annotated[bodies.Review, taken(bodies.Review)]
) -> Any:
    """Say whether a call was right or wrong to let run; it stays as it is."""
    await here.visibility.request(request, shows=True)
    word = here.inbox.decide(request, body.verdict, note=body.note, **named(body))
    return answer(RequestSeen.of(await word))


@routes.add(
    "POST", "/requests/{request}/take", scope="decide", takes=bodies.Until, gives=RequestSeen, errors=(404, 409)
)
async def take_request(here: ApiContext, request: IdPath, body: Annotated[bodies.Until, taken(bodies.Until)]) -> Any:
    """Say that you are on it, for 15 minutes unless you say until when."""
    here.marks()
    await here.visibility.request(request, shows=True)
    row = await here.inbox.mark(request, "take", until=body.until, lasts=body.lasts, once=here.name, **named(body))
    return answer(RequestSeen.of(row))


@routes.add(
    "POST", "/requests/{request}/let_go", scope="decide", takes=bodies.Shown, gives=RequestSeen, errors=(404, 409)
)
async def let_go(here: ApiContext, request: IdPath, body: Annotated[bodies.Shown, taken(bodies.Shown)]) -> Any:
    """Say that you are not on it any more."""
    here.marks()
    await here.visibility.request(request, shows=True)
    return answer(RequestSeen.of(await here.inbox.mark(request, "let_go", once=here.name, **named(body))))


@routes.add(
    "POST", "/requests/{request}/snooze", scope="decide", takes=bodies.Until, gives=RequestSeen, errors=(404, 409)
)
async def snooze_request(here: ApiContext, request: IdPath, body: Annotated[bodies.Until, taken(bodies.Until)]) -> Any:
    """Put a request off, for yourself alone."""
    here.marks()
    await here.visibility.request(request, shows=True)
    row = await here.inbox.mark(request, "snooze", until=body.until, lasts=body.lasts, once=here.name, **named(body))
    return answer(RequestSeen.of(row))


@routes.add(
    "POST", "/requests/{request}/wake", scope="decide", takes=bodies.Shown, gives=RequestSeen, errors=(404, 409)
)
async def wake_request(here: ApiContext, request: IdPath, body: Annotated[bodies.Shown, taken(bodies.Shown)]) -> Any:
    """Have a request back that you put off."""
    here.marks()
    await here.visibility.request(request, shows=True)
    return answer(RequestSeen.of(await here.inbox.mark(request, "wake", once=here.name, **named(body))))


def named(body: bodies.Shown) -> dict[str, Any]:
    """Return what names a request as it was shown."""
    return {"digest": body.digest, "revision": body.revision}
