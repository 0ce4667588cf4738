"""The table of signature schemes by name; a member is imported when it is first asked for.

Only the table and its reader live here; what a key and a proof look like is the member's own affair.
"""

from __future__ import annotations

from importlib import import_module

from ..core.people import Proof, ProofRefused
from .base import Checked, PublicKey, Scheme

#: Name: "module:class".
SCHEMES: dict[str, str] = {
    "ssh": "keyturn.proofs.ssh:SSHScheme",
    "passkey": "keyturn.proofs.passkey:PasskeyScheme",
}


def scheme(name: str) -> Scheme:
    """Return the scheme of a name, or raise `ProofRefused`: what nobody can verify is no proof.

    >>> scheme("ssh").name
    'ssh'
    """
    if name not in SCHEMES:
        raise ProofRefused(f"there is no scheme {name!r}; the known ones are {', '.join(SCHEMES)}")
    module, _, member = SCHEMES[name].partition(":")
    made = getattr(import_module(module), member)()
    assert isinstance(made, Scheme)
    return made


def verify(public: PublicKey, challenge: bytes, proof: Proof, *, last_count: int | None = None) -> Checked:
    """Verify a proof by the scheme of an enrolled key, or raise `ProofRefused`.

    >>> verify(PublicKey("none", "k", ""), b"c" * 32, Proof("none", "k", b""))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    keyturn.core.people.ProofRefused: the signature is refused: there is no scheme 'none'; the known ones are ssh, ...
    """
    return scheme(public.scheme).verify(public, challenge, proof, last_count=last_count)
