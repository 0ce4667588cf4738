"""The command `keyturn notifications` lists notifications, resends failed ones, and shows what one looks like."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from ..core.encodable import moment
from ..core.errors import KeyturnError, UserError
from ..journal import open_journal
from ..journal.base import Store
from ..journal.rows import Delivery, DeliveryQuery
from ..presenting.clock import here
from ..render.escape import clip
from ..render.plural import plural
from .finding import SHORTEST
from .notification_preview import FORMATS, preview
from .printing import print_labelled

_PAGE = 200


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="list | resend | preview")
    listing = what.add_parser("list", help="list failed deliveries (dead letters)")
    _common(listing)
    listing.add_argument("--all", action="store_true", help="also deliveries that succeeded or are still being retried")
    listing.add_argument("--request", metavar="ID", help="all notifications of this request, by its whole id")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    again = what.add_parser("resend", help="resend failed deliveries")
    _common(again)
    again.add_argument("number", nargs="*", type=int, metavar="N", help="these (default: all)")
    again.add_argument("--json", action="store_true", help="one JSON object a line")
    shown = what.add_parser("preview", help="show the notification of a request, as a channel sends it")
    _common(shown, needed=False)
    shown.add_argument("request", nargs="?", metavar="REQUEST", help=f"its id, or its first {SHORTEST} characters")
    shown.add_argument("--format", choices=FORMATS, default="text", help="(default: %(default)s)")
    shown.add_argument("--no-details", action="store_true", help="as for a recipient who gets no details")
    shown.add_argument("--link", default="https://inbox.example/requests/{request}", help="(default: %(default)s)")


def _common(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    told = "the journal's URL, such as sqlite:///keyturn.db"
    told += "" if needed else " (default: an example request)"
    parser.add_argument("journal", nargs=None if needed else "?", metavar="URL", help=told)
    parser.add_argument("--tenant", help="the tenant (default: the journal's own)")


def run(arguments: argparse.Namespace) -> int:
    """List, resend or preview; 1 where there are failed deliveries, 2 where the journal cannot be opened."""
    try:
        if arguments.what == "preview" and arguments.journal is None:
            print(asyncio.run(preview(None, arguments)))
            return 0
        return asyncio.run(_run(arguments))
    except KeyturnError as error:
        print_labelled("keyturn notifications", str(error))
        return 2


async def _run(arguments: argparse.Namespace) -> int:
    store: Any = open_journal(arguments.journal)
    try:
        view = store if arguments.tenant is None else store.of(arguments.tenant)
        if arguments.what == "preview":
            if arguments.request is None:
                raise UserError("name the request to preview, or leave out the journal to see an example")
            print(await preview(view, arguments))
            return 0
        return await (_list(view, arguments) if arguments.what == "list" else _resend(view, arguments))
    finally:
        close = getattr(store, "close", None)
        if close is not None:
            await close()


async def _list(store: Store, arguments: argparse.Namespace) -> int:
    whole = arguments.all or arguments.request is not None
    query = DeliveryQuery(subject=arguments.request, state=None if whole else "dead", sent=whole)
    dead = False
    async for row in _rows(store, query):
        dead = dead or row.state == "dead"
        print(_line(row, as_json=arguments.json))
    return 1 if dead else 0


async def _resend(store: Store, arguments: argparse.Namespace) -> int:
    numbers = arguments.number or [row.number async for row in _rows(store, DeliveryQuery(state="dead"))]
    count = await store.send_again(numbers)
    print(json.dumps({"sent_again": count}) if arguments.json else f"{plural(count, 'notification')} will be resent")
    return 0


async def _rows(store: Store, query: DeliveryQuery) -> AsyncGenerator[Delivery]:
    after = 0
    while page := await store.deliveries(_after(query, after)):
        for row in page:
            yield row
        after = page[-1].number


def _after(query: DeliveryQuery, after: int) -> DeliveryQuery:
    return DeliveryQuery(subject=query.subject, state=query.state, sent=query.sent, after=after, limit=_PAGE)


def _line(row: Delivery, *, as_json: bool) -> str:
    sent = moment(row.sent_at).isoformat() if row.state == "sent" else None
    told = {
        "number": row.number,
        "state": row.state,
        "channel": row.channel,
        "person": row.person,
        "topic": row.topic,
        "request": row.subject,
        "run": row.run,
        "attempts": row.attempts,
        "next": None if sent else moment(row.due_at).isoformat(),
        "sent": sent,
        "error": row.error,
    }
    if as_json:
        return json.dumps(told)
    named = (row.state, row.channel, row.person, row.topic, row.subject)
    shown = " ".join(clip(each, 80, keep="") or "-" for each in named)
    error = f": {clip(row.error, 200, keep='')}" if row.error else ""
    at = f" at {here(row.sent_at)}" if sent else ""
    return f"{row.number:>6} {shown}  {plural(row.attempts, 'attempt')}{at}{error}"
