"""The command `keyturn init` makes a journal with its first person, who administers it."""

from __future__ import annotations

import argparse
import getpass

from ..directory.people import People
from ..journal.base import Store
from ..render.escape import escape
from .with_journal import Told, describe_journal, run_with_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("person", metavar="PERSON", nargs="?", help="the first user (default: your login name)")
    parser.add_argument("--name", default="", help="the display name")
    describe_journal(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the journal if it is not there, and its directory; return 1 where there is one already."""

    async def work(store: Store) -> Told:
        people = People(store)
        person = arguments.person or getpass.getuser()
        await people.start(person, arguments.name)
        token = await people.issue_token(person, ["decide", "read", "people"], by=person, label="keyturn init")
        rows = [
            f"{escape(person, keep='')} administers this journal",
            f"token {token}",
            "Copy it now. It will not be shown again. Add other users with: keyturn users add",
        ]
        return Told(rows, {"person": person, "token": token})

    return run_with_journal(arguments, "init", work, new=True)
