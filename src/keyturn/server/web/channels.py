"""The page of notification channels: which there are, what is queued, and failed deliveries, which can be resent."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ...channels.addressing import NOBODY
from ...core.errors import UserError
from ...journal.rows import Delivery, DeliveryQuery
from ..errors import Refused
from .form import AdminPage, PageForm, administers, change
from .on_call import schedule_rows
from .pages import PageContext, page

router = APIRouter(include_in_schema=False)

#: How many deliveries of a channel are counted, and how many dead ones are listed.
COUNTED = 500
SHOWN = 50


class ChannelRow(NamedTuple):
    """Holds one channel: its name, what it is, and how many notifications are queued, and failed."""

    name: str
    kind: str
    moving: int
    dead: int


@router.get("/channels")
async def channels_page(request: HttpRequest, at: AdminPage) -> Response:
    """Show the channels."""
    return await _drawn(at, None, request)


@router.post("/channels/again")
async def again(request: HttpRequest, at: AdminPage) -> Response:
    """Resend failed deliveries: one, or all that there are."""

    async def make(form: PageForm) -> str:
        administers(at)
        if form.text("which") == "all":
            numbers = [row.number for row in await _dead(at, 0, COUNTED)]
        else:
            given = form.text("number")
            if not (given.isascii() and given.isdigit()):
                raise UserError("the form does not name a notification; reload the page")
            numbers = [int(given[:15])]
        await at.app.journal.send_again(numbers)
        return "/channels"

    return await change(request, at, make, lambda said: _drawn(at, said, request))


async def _dead(at: PageContext, after: int, limit: int) -> list[Delivery]:
    return await at.app.journal.deliveries(DeliveryQuery(state="dead", after=after, limit=limit))


async def _drawn(at: PageContext, refusal: Refused | None, request: HttpRequest) -> Response:
    given = request.query_params.get("after", "")
    after = int(given[:15]) if given.isascii() and given.isdigit() else 0
    found = await _dead(at, after, SHOWN + 1)
    plan = at.app.channels.by_name
    rows = await at.app.journal.deliveries(DeliveryQuery(limit=COUNTED))
    names = dict.fromkeys([*plan, *(row.channel for row in rows)])
    made = [_row(name, type(plan[name]).__name__ if name in plan else "", rows) for name in names]
    return page(
        at,
        "channels.html",
        200 if refusal is None else refusal.status,
        rows=made,
        counted=len(rows) == COUNTED,
        dead=found[:SHOWN],
        schedules=schedule_rows(at),
        more=found[SHOWN - 1].number if len(found) > SHOWN else 0,
        refusal=refusal,
    )


def _row(name: str, kind: str, rows: list[Delivery]) -> ChannelRow:
    own = [row.state for row in rows if row.channel == name]
    moving = own.count("waiting") + own.count("sending")
    return ChannelRow("not addressed yet" if name == NOBODY else name, kind, moving, own.count("dead"))
