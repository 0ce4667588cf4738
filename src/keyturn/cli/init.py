"""The command `keyturn init` makes a journal with its first person, who administers it."""

from __future__ import annotations

import argparse
import getpass

from ..directory.finding import id_from
from ..directory.people import People
from ..journal.base import Store
from ..render.escape import escape
from .remembered import RememberedJournal, absolute, remember
from .with_journal import TENANT, Told, describe_journal, run_with_journal, url_of


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("person", metavar="PERSON", nargs="?", help="the first user (default: your login name)")
    parser.add_argument("--name", default="", help="the display name")
    describe_journal(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the journal if it is not there, and its directory; return 1 where there is one already."""

    given = arguments.person or getpass.getuser()
    url = url_of(arguments, new=True)

    async def work(store: Store) -> Told:
        people = People(store)
        person, name = id_from(given)
        await people.start(person, arguments.name or name)
        token = await people.issue_token(person, ["decide", "read", "people"], by=person, label="keyturn init")
        kept = (
            arguments.tenant == TENANT
            and not url.startswith("memory:")
            and remember(RememberedJournal(absolute(url), person, token))
        )
        rows = [
            f"{escape(person, keep='')} administers this journal",
            f"token {token}",
            "Copy it now. It will not be shown again. Add other users with: keyturn users add",
        ]
        if kept:
            rows.append(f"Commands in this directory use this journal and sign in as {escape(person, keep='')}.")
        return Told(rows, {"person": person, "token": token})

    return run_with_journal(arguments, "init", work, new=True)
