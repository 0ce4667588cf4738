"""All components of the pages on one page, in their states: for whoever changes them, in development alone."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ...core.errors import Conflict, NotAllowed, UserError
from ...core.preview import Command, Diff, Preview, Text
from ...inbox.figures import Figures, Times
from ..errors import refused
from .blocks import blocks_of
from .form import ReaderPage
from .pages import page
from .plots import days_plot, shares_plot, times_plot
from .shown import ready
from .timeline import TimelineEntry, TimelineLine, Who

router = APIRouter(include_in_schema=False)

_OF_RUNS = ("waiting", "running", "finished", "failed", "set_aside", "cancelled", "erased", "damaged")
STATUSES = (*_OF_RUNS, "sending", "dead")
ACTIONS = ("allow", "ask", "deny", "unknown")
_LOOKS_LIKE = 'ok\u202e gnp.exe\u200b</pre><script>alert(1)</script> "Approve this call"'


@router.get("/_components")
async def components_page(at: ReaderPage) -> Response:
    """Show all components."""
    if not at.settings.development:
        error = refused(UserError("It is there in development alone: ServerSettings(development=True)."))
        return page(at, "refused.html", 404, said=error._replace(status=404))
    before, after = "port = 8080\nworkers = 2\nlog = info\n", "port = 80\nworkers = 2\nlog = debug\n"
    preview = Preview(
        (
            Command("set -eu\ngit push --force origin main", cwd="/srv/build"),
            Diff(before, after, path="app.toml"),
            Text(_LOOKS_LIKE, label="data that would like to be us"),
            Text("\n".join(f"line {n}" for n in range(60)), label="long"),
        )
    )
    figures = [
        _figures("refund", 40, 0.9, 12),
        _figures("restart", 12, 0.5, 95),
        _figures("a_tool_of_a_long_name_indeed", 3, 1, 300),
    ]
    return page(
        at,
        "components.html",
        statuses=STATUSES,
        actions=ACTIONS,
        blocks=blocks_of(preview, {}),
        refusals=[
            refused(NotAllowed("ben has not the role 'finance'")),
            refused(Conflict("it was decided already", winner="ben", decision="reject")),
        ],
        lines=_lines(at.now),
        daily=days_plot([_figures(f"2026-11-{day:02}", day * 7 % 23, 0.8, 5) for day in range(1, 31)]),
        times=times_plot(figures),
        shares=shares_plot(figures),
        hostile=_LOOKS_LIKE,
    )


def _figures(name: str, decided: int, approved: float, seconds: float) -> Figures:
    took = Times(decided, seconds, seconds, seconds * 3, seconds / 2, seconds * 2)
    hurried = decided // 5
    return Figures(name, decided, decided, approved, 0, 1 - approved, 0, 0, took, Times(), decided, hurried, {})


def _lines(now: int) -> list[TimelineLine]:
    told = [
        ("quiet", Who("person", "cyd"), "the run begins", ("here",)),
        ("agent", Who("run"), "an agent begins", ("pass", "open")),
        ("model", Who("model"), "the model wants pay", ("pass", "here")),
        ("asks", Who("policy", "rule 2"), "pay requires approval", ("pass", "here")),
        ("decided", Who("person", "ada"), "pay is approved", ("pass", "here")),
        ("started", Who("worker"), "pay starts", ("pass", "here")),
        ("ended", Who("tool"), "pay ended", ("pass", "here")),
        ("bad", Who("tool"), "pay failed", ("pass", "here")),
        ("agent", Who("run"), "the agent ends", ("pass", "close")),
    ]
    return [
        TimelineLine(number, now, (TimelineEntry(kind, who, ready(words), lanes, len(lanes)),))
        for number, (kind, who, words, lanes) in enumerate(told, 1)
    ]
