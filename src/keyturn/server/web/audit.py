"""The audit: search the record of decisions, verify it now, and take it along.

Overseeing is for whoever may read. An export that is signed with this server's key is for administrators.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...audit.decisions.entry import AuditEntry
from ...audit.evidence.report import VerifyReport
from ...audit.service import Format, Terms
from ...core.errors import KeyturnError, UserError
from ..errors import Refused, refused
from ..exported import ExportedFile
from ..reading_logs import SEARCH_LOOKS, SEARCH_SECONDS, reading_logs
from .form import Overseeing, PageForm, administers, form_of
from .pages import Here, page

router = APIRouter(include_in_schema=False)

SHOWN = 25
FAULTS = 50
VERDICTS = (
    *("approve", "edit", "reject", "answer", "ran", "did_not_run", "retry", "expire", "drill_passed", "drill_failed"),
    *("allow", "ask", "deny", "revoke", "cancel", "damaged"),
)
_NAMES = ("person", "tool", "agent", "run", "verdict", "text")


@router.get("/audit")
async def audit_page(request: HttpRequest, at: Overseeing) -> Response:
    """Search the record."""
    given = request.query_params
    chosen = {name: given.get(name, "")[:200].replace("\0", "") for name in (*_NAMES, "since", "until")}
    values: dict[str, Any] = {}
    try:
        async with request.app.state.readers.search(at.visitor.id):
            values = await _found(at, _terms(chosen), given.get("after", "")[:250].replace("\0", "") or None)
    except KeyturnError as error:
        return _drawn(at, chosen, refusal=refused(error))
    return _drawn(at, chosen, **values)


async def _found(at: Here, terms: Terms, after: str | None) -> dict[str, Any]:
    found = await at.app.audit.search_page(
        after=after, limit=SHOWN, newest=True, seconds=SEARCH_SECONDS, looks=SEARCH_LOOKS, by=at.visitor.login, **terms
    )
    return {"entries": found.entries, "more": found.next or "", "late": found.late}


@router.post("/audit/verify")
async def verify(request: HttpRequest, at: Overseeing) -> Response:
    """Verify every line of the store, and say in words what came of it."""
    try:
        await form_of(request, at)
        async with reading_logs(request.app.state, at.visitor, "verifying the store", "keyturn audit verify"):
            report = await at.app.audit.verify()
    except KeyturnError as error:
        return _drawn(at, {}, refusal=refused(error))
    return _drawn(at, {}, report=report)


@router.post("/audit/export")
async def export(request: HttpRequest, at: Overseeing) -> Response:
    """Write the record as a file: CSV with the filters of the search, or JSONL, whole and signed."""
    folder: Any = None
    try:
        form = await form_of(request, at)
        made = _format(form)
        if made == "jsonl":
            administers(at)
        terms = _terms({name: form.text(name) for name in (*_NAMES, "since", "until")}) if made == "csv" else Terms()
        folder = tempfile.TemporaryDirectory(prefix="keyturn-export-")
        path = Path(folder.name) / f"keyturn-audit.{made}"
        async with reading_logs(request.app.state, at.visitor, "the export", "keyturn audit export"):
            await at.app.audit.export(path, format=made, by=at.visitor.login, **terms)
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


def _terms(chosen: dict[str, str]) -> Terms:
    made: Any = {name: chosen[name] for name in _NAMES if chosen.get(name)}
    since, until = (_time(chosen.get(name, "")) for name in ("since", "until"))
    if since is not None or until is not None:
        made["between"] = (since, until)
    return made


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"a time is such as 2026-11-02 or 2026-11-02T09:30, not {text!r}") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _drawn(at: Here, chosen: dict[str, str], **given: Any) -> Response:
    refusal: Refused | None = given.get("refusal")
    report: VerifyReport | None = given.get("report")
    entries: list[AuditEntry] | None = given.get("entries")
    names = dict.fromkeys((*_NAMES, "since", "until"), "") | chosen
    return page(
        at,
        "audit.html",
        200 if refusal is None else refusal.status,
        chosen=names,
        narrowed=any(names.values()),
        deeper=any(names[name] for name in ("agent", "verdict", "run", "since", "until")),
        entries=entries,
        more=given.get("more", ""),
        late=given.get("late", False),
        report=report,
        faults=[] if report is None else report.faults[:FAULTS],
        verdicts=VERDICTS,
        refusal=refusal,
    )
