"""Refuse a resume that lacks what its run is under, or brings what excludes it, before anything is done."""

from __future__ import annotations

from ...core.aside import check_not_aside
from ...core.errors import UserError
from ...core.events import ROOT
from ...core.run import Run
from ..run.frame_settings import FrameSettings
from ..run.open_run import OpenRun
from .context_data import check_whole
from .undelivered import UndeliveredDecisions


def check_resumable(live: OpenRun, scope: FrameSettings, said: UndeliveredDecisions) -> None:
    """Raise `UserError` where a run cannot be resumed with what its caller gives."""
    run = live.run
    if run.status in ("new", "finished"):
        return
    check_not_aside(run)
    if said.journalled and live.journal is None:
        raise UserError(
            "this run is kept in a journal, which alone knows what of it ran since this state was saved; pass "
            "journal= to resume it"
        )
    if (run.about.get("policy") or run.under_policy) and scope.policy is None:
        raise UserError("this run is under a policy; pass policy= to resume it under one")
    check_whole(live)
    scope.check_session()
    if run.queued:
        _check_turn(run, scope)
    root = run.frames.get(ROOT)
    if root is not None and root.prefix is not None and scope.session is None and ROOT not in live.prefixes:
        raise UserError("this run has a session; pass the same session= to resume it")


def _check_turn(run: Run, scope: FrameSettings) -> None:
    """Refuse to begin a run on another session than that on which it waits for its turn."""
    known = [run.about[name] for name in ("session", "session_id") if name in run.about]
    given = getattr(scope.session, "session_id", None)
    if scope.session is None:
        raise UserError("this run is queued on its session; pass the same session= to resume it")
    if given is not None and given not in known:
        raise UserError(f"this run is queued on another session, {known[-1]!r}; pass that one to resume it")
