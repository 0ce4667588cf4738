"""Insights: how fast and how uniformly people decide, and which rules would spare them what they always approve."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...core.errors import KeyturnError
from ...inbox.replayed import Suggestion
from .form import AdminPage
from .pages import failure, page
from .plots import between, days_plot, shares_plot, time, times_plot

router = APIRouter(include_in_schema=False)

#: How many tools and people a plot shows; the table has the rest.
PLOTTED = 12
LISTED = 100
DAYS = (7, 30, 90)
SECONDS = 8.0
_NEWEST = 2_000


@router.get("/insights")
async def insights_page(request: HttpRequest, at: AdminPage) -> Response:
    """Show how people decide."""
    given = request.query_params.get("days", "30")
    days = int(given) if given in map(str, DAYS) else 30
    report = await at.app.insights.report(days=days)
    daily = await at.app.insights.days(days=days)
    suggested: list[Suggestion] | None = None
    late = False
    if request.query_params.get("suggest") == "1":
        try:
            async with request.app.state.readers.search(at.visitor.id), asyncio.timeout(SECONDS):
                suggested = await at.app.insights.suggestions(newest=_NEWEST)
            await at.visibility.reads_of("search", "suggestions")
        except TimeoutError:
            late = True
        except KeyturnError as error:
            return failure(at, error)
    return page(
        at,
        "insights.html",
        report=report,
        days=days,
        choices=DAYS,
        daily=days_plot(daily),
        tools=report.tools[:LISTED],
        people=report.people[:LISTED],
        times=times_plot(report.tools[:PLOTTED]),
        shares=shares_plot(report.people[:PLOTTED]),
        told=time,
        between=between,
        suggested=suggested,
        late=late,
    )
