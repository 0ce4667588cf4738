"""The command `keyturn inbox` opens the inbox in the terminal: what waits, live, and the letters that decide it.

The screen needs Textual, which is imported only here and only when it is there.
"""

from __future__ import annotations

import argparse
import sys

from ..core.errors import UserError
from ..inbox.personal import PersonalInbox
from ..support.lazy import is_installed
from .printing import print_labelled
from .seats.sitting import run_with_inbox
from .with_journal import Told, describe_app, describe_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    describe_journal(parser, people=True, server=True)
    describe_app(parser, "its tools validate edits")
    signing = "the key that signs, where a signature is required (default: the enrolled one in ~/.ssh)"
    parser.add_argument("--sign", default="", metavar="KEYFILE", help=signing)


def run(arguments: argparse.Namespace) -> int:
    """Open it; return 1 where that cannot be done."""
    if not is_installed("textual"):
        return _refuse("the screen needs the package 'textual', which is not installed: pip install 'keyturn[chat]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _refuse("this is not a terminal; for programs, see keyturn requests --json")
    return run_with_inbox(arguments, "inbox", lambda inbox: _open(inbox, arguments.sign), scope="read")


async def _open(inbox: PersonalInbox, keyfile: str) -> Told | int:
    from ..inbox_screen.reading import InboxSeat
    from ..inbox_screen.screen import InboxApp

    owner = await inbox.who()
    await InboxApp(InboxSeat(inbox, owner.id, keyfile, unverified=not owner.verified)).run_async()
    return 0


def _refuse(why: str) -> int:
    print_labelled("keyturn inbox", str(UserError(why)))
    return 1
