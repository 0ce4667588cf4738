"""Sign a challenge with `ssh-keygen`: with a key in a file, in an agent or on a security key."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from ..core.errors import UserError
from ..core.people import Proof, ProofRefused
from .base import CHALLENGE_BYTES
from .ssh import NAMESPACE, SSHScheme, key_of

# A person types a passphrase and touches a key meanwhile.
_SECONDS = 300.0


def sign_with_ssh(challenge: bytes, key_path: str | os.PathLike[str], *, timeout: float = _SECONDS) -> Proof:
    """Sign a challenge with an ssh key, or raise `UserError`; blocks while the person types or touches.

    The path of a public key (`.pub`) signs with an agent that has its other half. ssh-keygen asks for passphrases and
    touches on the terminal itself.
    """
    if len(challenge) != CHALLENGE_BYTES:
        raise UserError(f"challenge is the {CHALLENGE_BYTES} bytes of decision_challenge() or key_challenge()")
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UserError("signing with an ssh key needs ssh-keygen, which comes with OpenSSH (8.1 or newer)")
    path = Path(key_path).expanduser().absolute()
    if not path.is_file():
        raise UserError(f"there is no ssh key {os.fspath(key_path)!r}")
    command = [program, "-Y", "sign", "-n", NAMESPACE.decode(), "-f", os.fspath(path)]
    try:
        # Its words go to the terminal as they come: "Confirm user presence" is no use to anybody afterwards.
        done = subprocess.run(command, input=challenge, stdout=subprocess.PIPE, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"ssh-keygen did not sign within {timeout:g} s: no passphrase was typed, or the key was not touched"
        ) from None
    if done.returncode != 0 or not done.stdout:
        raise UserError(f"ssh-keygen could not sign with {os.fspath(key_path)!r}; it says why on standard error")
    return Proof("ssh", key_of(done.stdout), done.stdout)


def key_among(known: Collection[str], folder: Path | None = None) -> Path | None:
    """Return the file of the first key in ~/.ssh that is among these, by its fingerprint; None where there is none.

    It is the public half where an agent has the other one.
    """
    folder = Path.home() / ".ssh" if folder is None else folder
    for public in sorted(folder.glob("*.pub")) if folder.is_dir() else ():
        if _fingerprint(public) in known:
            private = public.with_suffix("")
            return private if private.is_file() else public
    return None


def _fingerprint(public: Path) -> str:
    """Return the id of the key in a `.pub` file; "" where there is none."""
    try:
        return SSHScheme().enrol(public.read_text(encoding="utf-8").strip()).id
    except (OSError, UnicodeDecodeError, ProofRefused):
        return ""
