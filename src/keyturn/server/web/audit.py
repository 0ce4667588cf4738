"""The audit log: who decided what, and every line of the record; verify it now, and take it along.

It is for visitors who may read all of their tenant. An export that is signed with this server's key is for
administrators.
"""

from __future__ import annotations

import json
import tempfile
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...audit.decisions.entry import AuditEntry
from ...audit.evidence.report import VerifyReport
from ...audit.service import Format, Terms
from ...core.encodable import in_milliseconds
from ...core.errors import KeyturnError, UserError
from ...presenting.audit_words import GrantLimits, decider_words, limits_of, recorded_words
from ...presenting.list_row import LINE
from ...render.escape import Escaped
from ...render.one_row import arguments_row, changes_row, ends_of
from ..errors import Refused, refused
from ..exported import ExportedFile
from ..reading_logs import SEARCH_LOOKS, SEARCH_SECONDS, reading_logs
from ..zones import day_in, periods
from .form import AdminPage, PageForm, administers, change, form_of
from .pages import PageContext, page

router = APIRouter(include_in_schema=False)

SHOWN = 25
FAULTS = 50
#: What is chosen by, in the words of the table: what people do, then what only the view of all lines has.
VERDICTS = (
    *("approve", "edit", "reject", "answer", "asked_back", "ran", "did_not_run", "retry", "expire", "allow", "grant"),
    *("revoke", "withdraw", "undo", "right", "wrong", "drill_passed", "drill_failed", "cancel", "damaged"),
)
LINE_VERDICTS = ("ask", "deny", "upheld", "more")
#: The view of all lines, where the other one shows decisions.
LINES = "lines"
#: Where the filters that somebody saved are kept among their settings, and how many they may be.
SAVED = "audit_filters"
MOST_SAVED = 20
_LONGEST_NAME = 60
#: How many users the field for one suggests.
LISTED_PEOPLE = 200
_NAMES = ("person", "tool", "agent", "run", "verdict", "text")
_FIELDS = (*_NAMES, "since", "until", "view")


class ShownEntry(NamedTuple):
    """Holds an entry with its time, its words and its arguments as a page shows them."""

    entry: AuditEntry
    ms: int
    word: str
    by: str
    arguments: Escaped
    changes: tuple[Escaped, Escaped] | None
    granted: GrantLimits | None


class AuditPeriod(NamedTuple):
    """Holds a period that is one click away: its name, the query of its page, and whether it is the one shown."""

    name: str
    query: str
    chosen: bool


@router.get("/audit")
async def audit_page(request: HttpRequest, at: AdminPage) -> Response:
    """Show who decided what, the newest first, or every line of the record."""
    given = request.query_params
    chosen = {name: given.get(name, "")[:200].replace("\0", "") for name in _FIELDS}
    values: dict[str, Any] = {}
    try:
        async with request.app.state.readers.search(at.visitor.id):
            values = await _found(at, chosen, given.get("after", "")[:250].replace("\0", "") or None)
    except KeyturnError as error:
        return _drawn(at, chosen, refusal=refused(error))
    return _drawn(at, chosen, **values)


async def _found(at: PageContext, chosen: dict[str, str], after: str | None) -> dict[str, Any]:
    terms = _terms(chosen, at.zone)
    bounds: Any = {"after": after, "limit": SHOWN, "seconds": SEARCH_SECONDS, "looks": SEARCH_LOOKS}
    if terms.get("decisions"):
        found = await at.app.audit.latest(by=at.visitor.login, **bounds, **terms)
    else:
        found = await at.app.audit.search_page(newest=True, by=at.visitor.login, **bounds, **terms)
    shown = [_shown(each, lines=not terms.get("decisions")) for each in found.entries]
    return {"entries": shown, "more": found.next or "", "late": found.late}


def _shown(entry: AuditEntry, *, lines: bool) -> ShownEntry:
    word = recorded_words(entry.what, entry.verdict, lines=lines)
    granted = limits_of(entry.granted) if entry.what == "grant" else None
    by = decider_words(entry.what, entry.named, entry.via)
    changes = _changes(entry.arguments, entry.edited)
    return ShownEntry(entry, in_milliseconds(entry.at), word, by, _line(entry.arguments), changes, granted)


def _line(arguments: str) -> Escaped:
    """Return arguments as lists of requests show them."""
    if not arguments:
        return Escaped()
    try:
        return arguments_row(json.loads(arguments), LINE)
    except (ValueError, RecursionError):  # those of a call that no tool takes are a text
        return ends_of(arguments, LINE)


def _changes(arguments: str, edited: str) -> tuple[Escaped, Escaped] | None:
    """Return what an approver changed, before and after; None where nothing was changed."""
    if not edited:
        return None
    try:
        return changes_row(json.loads(arguments), json.loads(edited), LINE)
    except (ValueError, RecursionError):
        return changes_row(arguments, edited, LINE)


@router.post("/audit/filters")
async def filters(request: HttpRequest, at: AdminPage) -> Response:
    """Save the filters that are set under a name, or remove saved ones."""

    async def make(form: PageForm) -> str:
        saved, name = _saved(at), " ".join(form.text("name").split())
        chosen = {field: form.text(field)[:200] for field in _FIELDS if form.text(field)}
        if form.text("do") == "forget":
            saved.pop(name, None)
        elif not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UserError(f"A name has 1 to {_LONGEST_NAME} characters.")
        elif len(saved) >= MOST_SAVED and name not in saved:
            raise UserError(f"You have {MOST_SAVED} saved filters: remove one first.")
        else:
            _terms(chosen, at.zone)
            saved[name] = chosen
        await at.app.people.set(SAVED, saved or None, person=at.visitor.id, by=at.visitor.login)
        return f"/audit?{urlencode(chosen)}"

    async def drawn(refusal: Refused | None) -> Response:
        return _drawn(at, {}, refusal=refusal)

    return await change(request, at, make, drawn)


def _saved(at: PageContext) -> dict[str, dict[str, str]]:
    """Return the filters that a visitor saved; what is none of ours in their settings counts as none."""
    given: Any = at.visitor.person.settings.get(SAVED)
    try:
        found = msgspec.convert(given or {}, dict[str, dict[str, str]])
    except msgspec.ValidationError:
        return {}
    return {name: {field: each[field] for field in _FIELDS if each.get(field)} for name, each in found.items()}


@router.post("/audit/verify")
async def verify(request: HttpRequest, at: AdminPage) -> Response:
    """Verify every line of the store, and say in words what came of it."""
    try:
        await form_of(request, at)
        async with reading_logs(request.app.state, at.visitor, "verifying the store", "keyturn audit verify"):
            report = await at.app.audit.verify()
    except KeyturnError as error:
        return _drawn(at, {}, refusal=refused(error))
    return _drawn(at, {}, report=report)


@router.post("/audit/export")
async def export(request: HttpRequest, at: AdminPage) -> Response:
    """Write the record as a file: CSV with the filters of the search, or JSONL, whole and signed."""
    folder: Any = None
    try:
        form = await form_of(request, at)
        made = _format(form)
        if made == "jsonl":
            administers(at)
        terms = _terms({name: form.text(name) for name in _FIELDS}, at.zone) if made == "csv" else Terms()
        folder = tempfile.TemporaryDirectory(prefix="keyturn-export-")
        path = Path(folder.name) / f"keyturn-audit.{made}"
        async with reading_logs(request.app.state, at.visitor, "the export", "keyturn audit export"):
            await at.app.audit.export(path, format=made, by=at.visitor.login, zone=at.zone, **terms)
    except KeyturnError as error:
        if folder is not None:
            folder.cleanup()
        return _drawn(at, {}, refusal=refused(error))
    kind = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}[made]
    return ExportedFile(folder, path, media_type=kind, filename=path.name)


def _format(form: PageForm) -> Format:
    match form.text("format"):
        case "csv":
            return "csv"
        case "jsonl":
            return "jsonl"
        case other:
            raise UserError(f"an export is csv or jsonl, and not {other!r}")


def _terms(chosen: dict[str, str], zone: tzinfo) -> Terms:
    made: Any = {name: chosen[name] for name in _NAMES if chosen.get(name)}
    since, until = day_in(chosen.get("since", ""), zone), day_in(chosen.get("until", ""), zone, ends=True)
    if since is not None or until is not None:
        made["between"] = (since, until)
    if chosen.get("view") != LINES:
        made["decisions"] = True
    return made


def _verdicts(*, lines: bool) -> list[tuple[str, str]]:
    """Return what can be chosen by, each with the word that the table has for it."""
    known = (*VERDICTS, *(LINE_VERDICTS if lines else ()))
    whats = {"grant": "grant", "allow": "verdict"}
    return [(each, recorded_words(whats.get(each, "decision"), each, lines=False)) for each in known]


def _periods(at: PageContext, chosen: dict[str, str]) -> list[AuditPeriod]:
    """Return the periods that are one click away, with the other filters as they are."""
    kept = {name: value for name, value in chosen.items() if value and name not in ("since", "until")}
    made = list[AuditPeriod]()
    for name, first, last in periods(at.now, at.zone):
        days = {"since": str(first), "until": str(last)}
        made.append(AuditPeriod(name, urlencode(kept | days), days == {day: chosen.get(day) for day in days}))
    return made


def _drawn(at: PageContext, chosen: dict[str, str], **given: Any) -> Response:
    refusal: Refused | None = given.get("refusal")
    report: VerifyReport | None = given.get("report")
    entries: list[ShownEntry] | None = given.get("entries")
    names = dict.fromkeys(_FIELDS, "") | chosen
    narrowing = {name: value for name, value in names.items() if value and name != "view"}
    return page(
        at,
        "audit.html",
        200 if refusal is None else refusal.status,
        chosen=names,
        narrowed=bool(narrowing),
        deeper=any(names[name] for name in ("agent", "verdict", "run", "text")),
        lines=names["view"] == LINES,
        other=urlencode(narrowing | ({} if names["view"] == LINES else {"view": LINES})),
        query=urlencode({name: value for name, value in names.items() if value}),
        periods=_periods(at, chosen),
        saved={name: urlencode(each) for name, each in _saved(at).items()},
        entries=entries,
        more=given.get("more", ""),
        late=given.get("late", False),
        report=report,
        faults=[] if report is None else report.faults[:FAULTS],
        verdicts=_verdicts(lines=names["view"] == LINES),
        people=[(person.id, person.name) for person in at.visitor.directory.people.values()][:LISTED_PEOPLE],
        refusal=refusal,
    )
