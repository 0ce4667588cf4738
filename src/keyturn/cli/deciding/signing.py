"""Sign a decision with the person's own ssh key: the one they name, else the one in ~/.ssh that they enrolled."""

from __future__ import annotations

import sys

from ...console.screen import Terminal
from ...core.digest import canonical
from ...core.errors import UserError
from ...core.people import Proof
from ...inbox.personal import Details, PersonalInbox, Verdict
from ...inbox.signing_key import signing_key
from ...journal.rows import RequestRow
from ...proofs.ssh_signing import sign_with_ssh
from ...tools.base import plain_preview
from .asking import said_yes


async def sign(inbox: PersonalInbox, row: RequestRow, verdict: Verdict, details: Details, named: str) -> Proof:
    """Sign a decision with the very details that will be recorded, with the key that is named or enrolled."""
    if inbox.server is not None and not _seen_whole(row):
        raise UserError("nothing was signed")
    # The row and not its id: a client makes the challenge of what was shown.
    challenge = await inbox.challenge(row, verdict, **details)
    return sign_with_ssh(challenge, await signing_key(inbox, named))


def _seen_whole(row: RequestRow) -> bool:
    """Show what a server's own drawing leaves out, and ask; a program that names a digest is not asked.

    The digest, which is checked here, is of the arguments: a drawing that hides them could be of anything.
    """
    request = row.request
    if request.preview == plain_preview(request.params) or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    screen = Terminal.here()
    screen.say()
    screen.label("you sign for these arguments", canonical(request.params))
    if request.secrets:
        screen.say("Its secrets are not shown, so that only the server can say whose digest it is.")
    return said_yes(screen, "Sign it? y or n")
