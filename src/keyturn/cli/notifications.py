"""The command `keyturn notifications URL` lists notifications that were not delivered, and resends dead letters."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from ..core.encodable import moment
from ..core.errors import KeyturnError
from ..journal import open_journal
from ..journal.base import Store
from ..journal.rows import Delivery, DeliveryQuery
from ..render.escape import clip
from ..render.plural import plural
from .printing import print_labelled

_PAGE = 200


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("journal", help="the journal's URL, such as sqlite:///keyturn.db")
    parser.add_argument("--all", action="store_true", help="also deliveries that are still being retried")
    parser.add_argument("--again", nargs="*", type=int, metavar="N", help="resend failed deliveries: these, or all")
    parser.add_argument("--tenant", help="the tenant (default: the journal's own)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """List or send again; 1 where there are dead messages, 2 where the journal cannot be opened."""
    try:
        return asyncio.run(_run(arguments))
    except KeyturnError as error:
        print_labelled("keyturn notifications", str(error))
        return 2


async def _run(arguments: argparse.Namespace) -> int:
    store: Any = open_journal(arguments.journal)
    try:
        view = store if arguments.tenant is None else store.of(arguments.tenant)
        rows = [row for row in await _rows(view) if arguments.all or row.state == "dead"]
        if arguments.again is None:
            for row in rows:
                print(_line(row, as_json=arguments.json))
            return 1 if any(row.state == "dead" for row in rows) else 0
        count = await view.send_again(arguments.again or [row.number for row in rows if row.state == "dead"])
        print(json.dumps({"sent_again": count}) if arguments.json else f"{count} will be sent again")
        return 0
    finally:
        close = getattr(store, "close", None)
        if close is not None:
            await close()


async def _rows(store: Store) -> list[Delivery]:
    found = list[Delivery]()
    while page := await store.deliveries(DeliveryQuery(after=found[-1].number if found else 0, limit=_PAGE)):
        found += page
    return found


def _line(row: Delivery, *, as_json: bool) -> str:
    told = {
        "number": row.number,
        "state": row.state,
        "channel": row.channel,
        "person": row.person,
        "topic": row.topic,
        "request": row.subject,
        "run": row.run,
        "attempts": row.attempts,
        "next": moment(row.due_at).isoformat(),
        "error": row.error,
    }
    if as_json:
        return json.dumps(told)
    named = (row.state, row.channel, row.person, row.topic, row.subject)
    shown = " ".join(clip(each, 80, keep="") or "-" for each in named)
    error = f": {clip(row.error, 200, keep='')}" if row.error else ""
    return f"{row.number:>6} {shown}  {plural(row.attempts, 'attempt')}{error}"
