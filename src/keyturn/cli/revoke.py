"""The command `keyturn revoke` revokes a standing decision: what it let run stays, and nothing more runs by it."""

from __future__ import annotations

import argparse

from ..inbox.personal import PersonalInbox
from ..render.escape import escape
from .finding import SHORTEST, find_grant
from .seats.sitting import run_with_inbox
from .with_journal import Told, describe_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("grant", metavar="GRANT", help=f"the id, or its first {SHORTEST} or more characters")
    describe_journal(parser, people=True, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Revoke it; return 1 where there is none."""

    async def work(inbox: PersonalInbox) -> Told:
        row = await find_grant(inbox, arguments.grant)
        await inbox.revoke(row.run, row.id)
        said = f"revoked: grant {escape(row.id, keep='')} for {escape(row.tool, keep='')}"
        return Told([said], {"grant": row.id, "run": row.run, "revoked": True})

    return run_with_inbox(arguments, "revoke", work)
