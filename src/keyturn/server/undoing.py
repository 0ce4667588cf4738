"""Say for how long an approval that is given on a page can be undone before its call starts."""

from __future__ import annotations

from ..application.app import App
from ..core.approval import Approval
from ..core.durations import milliseconds
from ..engine.run.log_cache import log_in
from ..journal.rows import RequestRow
from ..presenting.asking import is_held
from .settings import ServerSettings


def undoable(settings: ServerSettings, row: RequestRow) -> bool:
    """Return whether an approval of a request can be undone, by its risk and terms, as the settings say.

    >>> row = RequestRow("5e1f", "run", "r/1.0", "approval", "pay", "desk", "d1", 0, risk="high")
    >>> undoable(ServerSettings(), row), undoable(ServerSettings(undo_high_risk=True), row)
    (False, True)
    """
    terms = row.request.terms or Approval()
    grave = is_held(row) or terms.needs_proof
    return row.kind == "approval" and settings.undo is not None and (settings.undo_high_risk or not grave)


async def undo_for(app: App, settings: ServerSettings, row: RequestRow) -> str | None:
    """Return for how long an approval of a request on a page can be undone before its call starts; None for not."""
    undo, terms = settings.undo, row.request.terms or Approval()
    if undo is None or not undoable(settings, row):
        return None
    call = (await log_in(app.journal, row.run)).run.calls.get(row.call)
    late = terms.lasts_ms is not None and terms.lasts_ms <= milliseconds(undo)
    return None if late or (call is not None and call.proposal.by_provider) else f"{milliseconds(undo) / 1_000}s"
