"""Sign a decision with the person's own ssh key: the one they name, else the one in ~/.ssh that they enrolled."""

from __future__ import annotations

import sys
from pathlib import Path

from ...console.screen import Terminal
from ...core.digest import canonical
from ...core.errors import UserError
from ...core.people import Proof
from ...inbox.personal import Details, PersonalInbox, Verdict
from ...journal.rows import RequestRow
from ...proofs.ssh_signing import key_among, sign_with_ssh
from ...tools.base import plain_preview
from .asking import said_yes


async def sign(inbox: PersonalInbox, row: RequestRow, verdict: Verdict, details: Details, named: str) -> Proof:
    """Sign a decision with the very details that will be recorded, with the key that is named or enrolled."""
    if inbox.server is not None and not _seen_whole(row):
        raise UserError("nothing was signed")
    # The row and not its id: a client makes the challenge of what was shown.
    challenge = await inbox.challenge(row, verdict, **details)
    return sign_with_ssh(challenge, named or await enrolled_key(inbox))


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


async def enrolled_key(inbox: PersonalInbox, folder: Path | None = None) -> Path:
    """Return the file of a key in ~/.ssh that the person enrolled; its public half where an agent has the other."""
    folder = Path.home() / ".ssh" if folder is None else folder
    person = (await inbox.who()).id
    known = {key.id for key in await inbox.keys() if key.scheme == "ssh" and key.counts}
    if not known:
        raise UserError(
            f"{person!r} has no ssh key that counts: keyturn people enrol-key ~/.ssh/id_ed25519.pub, and somebody "
            "confirms it"
        )
    found = key_among(known, folder)
    if found is not None:
        return found
    raise UserError(f"no key of {person!r} is in {str(folder)!r}: name its file, --sign KEYFILE")
