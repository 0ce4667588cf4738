"""Show the notification of a request, as each channel would send it: the very texts and bodies, and nothing is sent."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.headerregistry import Address
from importlib import import_module
from typing import Any

from ..channels.base import Message, Recipient
from ..channels.mail import letter
from ..channels.mail_pages import page
from ..channels.messages import NoticedRequest, message_of
from ..core.digest import canonical
from ..core.preview import Json, Preview
from ..core.request import Request
from ..inbox.desk import Inbox
from ..journal.base import Store
from ..journal.rows import Delivery, RequestRow
from .finding import find_request

_SENDER, _READER = Address("Keyturn", addr_spec="keyturn@example.org"), Address(addr_spec="ada@example.org")


def _as_json(home: str, name: str, *more: str) -> Callable[[Message], str]:
    """Return what shows the body of a channel whose package is imported once it is asked for."""

    def shown(message: Message) -> str:
        made: Any = getattr(import_module(f"keyturn.channels.{home}"), name)
        return json.dumps(made(message, *more), indent=2, ensure_ascii=False)

    return shown


_FORMATS: dict[str, Callable[[Message], str]] = {
    "text": lambda message: f"{message.title}\n\n{message.text}",
    "html": page,
    "mail": lambda message: letter(message, _SENDER, _READER).as_string(),
    "teams": _as_json("teams", "card"),
    "slack": _as_json("slack", "blocks"),
    "pagerduty": _as_json("pagerduty", "event", "ROUTING KEY"),
    "opsgenie": _as_json("opsgenie", "alert"),
    "webhook": _as_json("webhook", "envelope"),
}
FORMATS = tuple(_FORMATS)


async def preview(store: Store | None, arguments: argparse.Namespace) -> str:
    """Return the notification of a request of a journal, or of an example, in the format that was asked for."""
    row = _example() if store is None else await _found(store, arguments.request)
    to = Recipient(person="ada", channel="preview", details=not arguments.no_details)
    note = Delivery("preview", "ada", "request.created", row.run, row.id, {"at": row.asked_at})
    message = message_of([NoticedRequest(note, row)], to, "default", arguments.link)
    return _FORMATS[arguments.format](message)  # a message is escaped already


async def _found(store: Store, given: str) -> RequestRow:
    return await find_request(Inbox(store).as_person("preview"), given)


def _example() -> RequestRow:
    """Return a request as an example: made up, and of no journal."""
    asked = datetime(2026, 11, 2, 9, 24, tzinfo=UTC)
    params = {"to": "Lumen Print GmbH", "iban": "DE02 1203 0000 0000 2020 51", "amount": 4_860, "currency": "EUR"}
    preview = Preview((Json(params),))
    request = Request(
        "5e1f7c03a4d94b0e8f26c1d7b3a95e40",
        "0b7d3f9a61c24e58",
        "r/1.0",
        "approval",
        "pay_invoice",
        "accounts",
        hashlib.sha256(canonical(params).encode()).hexdigest(),
        asked,
        expires_at=asked + timedelta(hours=4),
        reason="the amount is over 1,000 EUR",
        risk="high",
        params=params,
        preview=preview,
        verdicts=("approve", "edit", "reject"),
    )
    return RequestRow.of(request)
