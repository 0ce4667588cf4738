"""Find the ssh key that a person signs with: the file that they name, else the key in ~/.ssh that they enrolled."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import UserError
from ..proofs.ssh_signing import key_among
from .personal import PersonalInbox


async def signing_key(inbox: PersonalInbox, named: str = "", folder: Path | None = None) -> Path:
    """Return the file of a person's ssh key, its public half where an agent has the other; or raise with the remedy."""
    if named:
        return Path(named)
    person = (await inbox.who()).id
    enrolled = [key for key in await inbox.keys() if key.counts and key.person == person]
    known = {key.id for key in enrolled if key.scheme == "ssh"}
    if not known and enrolled:
        raise UserError("your passkey signs in a browser, on the page of this request")
    if not known:
        raise UserError(
            f"{person!r} has no ssh key that is confirmed: enroll one with "
            "`keyturn users enrol-key ~/.ssh/id_ed25519.pub`, and have an administrator confirm it"
        )
    found = key_among(known, folder)
    if found is None:
        raise UserError(f"no key of {person!r} is in {str(folder or '~/.ssh')!r}: name its file with --sign KEYFILE")
    return found
