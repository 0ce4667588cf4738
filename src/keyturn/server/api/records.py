"""Search, verify and export the record, and tell how people decide."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from fastapi import Query as Param
from pydantic import AwareDatetime

from ...audit.decisions.entry import AuditEntry
from ...core.errors import NotAllowed
from ...inbox.figures import InsightsReport
from ...wire import bodies
from ...wire.records import AuditPage, ReadsPage, Suggestions, Verified
from ..exported import ExportedFile
from ..reading_logs import SEARCH_LOOKS, SEARCH_SECONDS, reading_logs
from ..visible_pages import of_one_size
from .paging import Limit, Name, Newest, Place, plain
from .routes import ApiContext, Routes, answer, taken

routes = Routes("records")
At = Annotated[AwareDatetime | None, Param(description="A time with its zone.")]
Key = Annotated[str | None, Param(max_length=250, description="The `next` of the page before.")]
Days = Annotated[int, Param(ge=1, le=3_660)]


async def _terms(
    person: Name = None,
    tool: Name = None,
    agent: Name = None,
    run: Name = None,
    verdict: Name = None,
    text: Name = None,
    decisions: Annotated[bool, Param(description="Only decisions, and calls that were allowed without one.")] = False,
) -> dict[str, Any]:
    plain(person, tool, agent, run, verdict, text)
    named = {"person": person, "tool": tool, "agent": agent, "run": run, "verdict": verdict, "text": text}
    return named | {"decisions": decisions}


@routes.add("GET", "/audit", scope="read", gives=AuditPage)
async def search_audit(
    here: ApiContext,
    terms: Annotated[dict[str, Any], Depends(_terms)],
    since: At = None,
    until: At = None,
    after: Key = None,
    limit: Limit = 50,
    newest: Newest = False,
) -> Any:
    """Return who decided what, when and on which bytes, the oldest run first, or with `newest` the newest.

    A page looks at 10,000 lines of logs at most, and for 8 seconds. Where it ends before it is full, `late` is true and
    `next` is where it goes on.
    """
    here.visibility.must_see_all()
    plain(after)
    more: dict[str, Any] = terms | {"between": (since, until), "by": here.visitor.login}
    async with here.request.app.state.readers.search(here.visitor.id):
        found = await here.app.audit.search_page(
            after=after, limit=limit, newest=newest, seconds=SEARCH_SECONDS, looks=SEARCH_LOOKS, **more
        )
    entries = of_one_size(found.entries, _size)
    whole = len(entries) == len(found.entries)
    return answer(AuditPage(entries, found.next if whole else entries[-1].key, found.late and whole))


def _size(entry: AuditEntry) -> int:
    return sum(map(len, (entry.arguments, entry.edited, entry.message, entry.answer, entry.granted)))


@routes.add("GET", "/audit/reads", scope="read", gives=ReadsPage, errors=(503,))
async def list_reads(
    here: ApiContext, person: Name = None, request: Name = None, after: Place = 0, limit: Limit = 200
) -> Any:
    """Return who read the arguments of calls, the oldest first, where the directory has that put on record."""
    here.visibility.must_see_all()
    plain(person, request)
    async with reading_logs(here.request.app.state, here.visitor, "the record of reads", "keyturn audit reads"):
        found = await here.app.audit.reads(person=person, request=request)
    more = after + limit
    return answer(ReadsPage(found[after:more], more if more < len(found) else None))


@routes.add("GET", "/audit/verify", scope="read", gives=Verified, errors=(503,))
async def verify_audit(here: ApiContext) -> Any:
    """Verify every line of the store, within a minute; `keyturn audit verify` takes as long as it needs."""
    here.visibility.must_see_all()
    async with reading_logs(here.request.app.state, here.visitor, "verifying the store", "keyturn audit verify"):
        report = await here.app.audit.verify()
    data = report.data()
    return answer(Verified(**{name: data[name] for name in Verified.__struct_fields__}))


@routes.add("POST", "/audit/export", scope="read", takes=bodies.Export, media="application/octet-stream", errors=(503,))
async def export_audit(here: ApiContext, body: Annotated[bodies.Export, taken(bodies.Export)]) -> Any:
    """Export the record: decisions as CSV; to an administrator also all of it, signed and verifiable, as JSONL.

    It takes a minute at most; `keyturn audit export` takes as long as it needs.
    """
    here.visibility.must_see_all()
    if body.format == "jsonl" and not here.visitor.administers:
        raise NotAllowed("the whole record has who is who in it: it is for administrators, with a token for 'people'")
    folder = tempfile.TemporaryDirectory(prefix="keyturn-export-")
    file = Path(folder.name) / f"decisions.{body.format}"
    try:
        terms = {name: getattr(body, name) for name in ("person", "tool", "agent", "run", "verdict", "text")}
        async with reading_logs(here.request.app.state, here.visitor, "the export", "keyturn audit export"):
            await here.app.audit.export(file, format=body.format, secrets=body.secrets, by=here.visitor.login, **terms)
    except BaseException:
        folder.cleanup()
        raise
    named = f"keyturn-{datetime.now(UTC):%Y-%m-%d}.{body.format}"
    return ExportedFile(folder, file, media_type="application/octet-stream", filename=named)


@routes.add("GET", "/insights", scope="read", gives=InsightsReport)
async def get_insights(here: ApiContext, days: Days = 30) -> Any:
    """Tell how people decided in so many days."""
    here.visibility.must_see_all()
    return answer(await here.app.insights.report(days=days))


@routes.add("GET", "/insights/suggestions", scope="read", gives=Suggestions)
async def get_suggestions(here: ApiContext, tool: Name = None) -> Any:
    """Suggest rules that would have let run what people approved unchanged."""
    here.visibility.must_see_all()
    plain(tool)
    async with here.request.app.state.readers.search(here.visitor.id):
        found = await here.app.insights.suggestions(tool=tool)
    await here.visibility.reads_of("search", "suggestions")
    return answer(Suggestions(found))
