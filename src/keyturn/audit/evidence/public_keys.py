"""The public keys that an auditor trusts, and how one follows another: nothing secret is here.

A file of public keys holds pairs of lines: a statement that names a key, and the signature on that line of the key
before it; the first one signs itself. Who trusts a file trusts its keys. A key that is in no such file is trusted where
one that is says so: that is how a checkpoint of a newer key is verified by somebody who has the older one. Each key has
one follower and signs nothing once that one has begun.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from ...core.errors import UserError

# How far the clocks of those who sign may differ.
_SKEW = 3_600_000
_PEM = "-----BEGIN PUBLIC KEY-----"
_LARGEST = 1024 * 1024


class KeyStatement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="keyturn", tag="audit key 1"):
    """Names a public key: its id, its 32 bytes in Base64, since when it signs, and the id of the one before it.

    >>> KeyStatement("5e1f", "AAAA", 5).by
    ''
    """

    key: str
    public: str
    since: int
    by: str = ""


class LineSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Holds the Base64 of an Ed25519 signature of the line before this one, and the public keys that go with it.

    >>> LineSignature("AAAA").keys
    ()
    """

    signature: str
    keys: tuple[str, ...] = ()


def key_name(raw: bytes) -> str:
    """Return the id of a public key.

    >>> key_name(bytes(32))
    '66687aadf862bd77'
    """
    return sha256(raw).hexdigest()[:16]


def signed_pair(statement: KeyStatement, sign: Callable[[bytes], bytes]) -> str:
    """Write a statement and its signature as two lines."""
    line = msgspec.json.encode(statement)
    signature = msgspec.json.encode(LineSignature(b64encode(sign(line)).decode()))
    return f"{line.decode()}\n{signature.decode()}\n"


class PublicKeys:
    """Holds trusted public keys by their ids.

    >>> PublicKeys.read("").newest
    ''
    """

    def __init__(self) -> None:
        self._raw: dict[str, bytes] = {}
        self._since: dict[str, int] = {}
        self._next: dict[str, str] = {}
        self.newest = ""
        self.text = ""

    @classmethod
    def read(cls, text: str) -> PublicKeys:
        """Read a file of public keys: of ours, or a single one as a PEM."""
        made = cls()
        if _PEM in text:
            made._take(_raw_of(text))
            return made
        lines = text.splitlines()
        if len(lines) % 2 or len(text) > _LARGEST:
            raise UserError("this is no file of public keys: `keyturn audit keys --out FILE` writes one, or give a PEM")
        why = made.add(lines, anchored=True)
        if why:
            raise UserError(f"the file of public keys is damaged: {why}; get it anew from where it is kept")
        return made

    def add(self, lines: Sequence[str], *, anchored: bool = False) -> str:
        """Trust keys that trusted ones name as their followers; return what is wrong with them, "" for nothing.

        `anchored` says that the first one is trusted as it stands.
        """
        told: dict[str, bytes] = {}
        for place in range(0, len(lines) - 1, 2):
            why = self._add(lines[place], lines[place + 1], told, anchored=anchored and not place)
            if why:
                return why
        return "a key is named without a signature" if len(lines) % 2 else ""

    def _add(self, line: str, signed: str, told: dict[str, bytes], *, anchored: bool) -> str:
        try:
            message = line.encode()
            made = msgspec.json.decode(message, type=KeyStatement)
            raw = exact_bytes(made.public)
            signature = exact_bytes(msgspec.json.decode(signed, type=LineSignature).signature)
        except (msgspec.MsgspecError, ValueError):
            return "it names a key in a form that cannot be read"
        if made.key != key_name(raw) or len(raw) != 32:
            return f"the key {made.key!r} is not the one whose id that is"
        told[made.key] = raw
        by = self._raw.get(made.by) or told.get(made.by or made.key)
        if by is not None and not _fits(by, message, signature):
            return f"the signature that names key {made.key} is not that of key {made.by or made.key}"
        trusts = made.by in self._raw
        if trusts and self._next.get(made.by, made.key) != made.key:
            return f"two keys are said to follow {made.by}: {self._next[made.by]} and {made.key}"
        if trusts:
            self._next[made.by] = made.key
        if (trusts or anchored) and made.key not in self._raw:
            self._take(raw, made.since)
            self.text += f"{line}\n{signed}\n"
        return ""

    def _take(self, raw: bytes, since: int = 0) -> None:
        self.newest = key_name(raw)
        self._raw[self.newest] = raw
        self._since[self.newest] = since

    def __contains__(self, name: str) -> bool:
        return name in self._raw

    def names(self) -> list[str]:
        """Return the ids, the oldest first."""
        return list(self._raw)

    def since(self, name: str) -> int:
        """Return since when a key signs, in milliseconds since 1970; 0 where that is not known."""
        return self._since[name]

    def copy(self) -> PublicKeys:
        """Copy the keys, to trust more for one file alone."""
        made = PublicKeys()
        made._raw = self._raw.copy()
        made._since = self._since.copy()
        made._next = self._next.copy()
        made.newest = self.newest
        made.text = self.text
        return made

    def over(self, name: str, at: int) -> bool:
        """Return whether a key had a follower already at a time."""
        follower = self._next.get(name)
        return follower is not None and at > self._since[follower] + _SKEW

    def verify(self, name: str, message: bytes, signature: bytes) -> bool:
        """Return whether a signature of a message is that of a trusted key."""
        raw = self._raw.get(name)
        return raw is not None and _fits(raw, message, signature)


def exact_bytes(text: str) -> bytes:
    """Return what a Base64 text holds; raise `ValueError` for one that is not written as it would be.

    >>> exact_bytes("AAAA")
    b'\\x00\\x00\\x00'
    """
    made = b64decode(text, validate=True)
    if b64encode(made).decode() != text:
        raise ValueError("the last letter says more than it may")
    return made


def _fits(raw: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature of a message is that of a public key."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError as error:
        raise without_package(error) from error
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _raw_of(pem: str) -> bytes:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ModuleNotFoundError as error:
        raise without_package(error) from error
    try:
        key: Any = load_pem_public_key(pem.encode())
    except (ValueError, TypeError):
        raise UserError("the public key is damaged: it is no PEM that can be read") from None
    if not isinstance(key, Ed25519PublicKey):
        raise UserError("the public key is no Ed25519 key; checkpoints are signed with no other")
    return key.public_bytes_raw()


def without_package(error: ModuleNotFoundError) -> UserError:
    """Make the error for a machine that lacks the package that signs and verifies."""
    return UserError(f"signed checkpoints need the package {error.name!r}: pip install 'keyturn[audit]'")
