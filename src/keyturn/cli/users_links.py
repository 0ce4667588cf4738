"""The word `keyturn users link`: a one-time sign-in link as a URL, with a QR code where a phone can open it."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from urllib.parse import urlsplit

from ..core.errors import UserError
from ..render.escape import escape
from ..support.urls import opens_elsewhere
from .seats.base import PeopleSeat
from .seats.sitting import server_of
from .with_journal import Told

_HERE = "http://localhost:8321"  # where `keyturn serve` is by default
_URL = "KEYTURN_URL"


async def make_link(people: PeopleSeat, given: argparse.Namespace) -> Told:
    """Create a link for a user, at the URL that is named, else at the server that is asked, else at the local one."""
    url = _base(given)
    secret = str(await people.change("make_link", given.person))
    link = f"{url}/enter#{secret}"
    rows = [*_rows(link, escape(given.person, keep="")), "Copy it now. It will not be shown again."]
    if not opens_elsewhere(url):
        rows.append(
            f"This address opens on this machine only. For other devices, pass one that they reach: --url, or {_URL}."
        )
    return Told(rows, {"secret": secret, "url": link}, drawn=True)


def _base(given: argparse.Namespace) -> str:
    url = (given.public_url or os.environ.get(_URL) or server_of(given) or _HERE).rstrip("/")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and not parts.fragment and not parts.query
    except ValueError:
        good = False
    if not good or not url.isprintable():
        raise UserError(f"--url must be the address of the server, such as https://inbox.example, not {url!r}")
    return url


def _rows(link: str, person: str) -> list[str]:
    """Return the rows that tell of a link: a code only for whoever looks at a terminal, and has the packages for it."""
    if sys.stdout.isatty():
        with suppress(ImportError):
            from ..server.identity.first_run import invitation

            return invitation(link, person)
    return [f"One-time sign-in link for {person} (valid for 24 hours): {link}"]
