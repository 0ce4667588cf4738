"""The key that signs checkpoints: an Ed25519 key in a file of its own, with the statements that name its followers.

The file is read only while nobody else can read or write it, as that of the sealing keys is (`keyturn.support.keys`).
It is one file, replaced whole, so that a rotation that is cut off has happened or has not. After the private key it
holds the public keys, the oldest first, as `public_keys.py` reads them: each is a statement that the key before it has
signed.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.errors import UserError
from ...support.keys import alone, make_private, read_private, replace_private, state_directory
from .public_keys import KeyStatement, PublicKeys, key_name, signed_pair, without_package

VARIABLE = "KEYTURN_AUDIT_KEY"
_INSTEAD = f"name another in {VARIABLE}"
_BEGINS = "-----BEGIN"
_ENDS = "-----END PRIVATE KEY-----\n"


def key_file(given: Path | None = None) -> Path:
    """Return where the signing key is: the file given, else what the variable names, else the user's own."""
    named = os.environ.get(VARIABLE)
    return given or (Path(named) if named else state_directory() / "audit-key")


class Signer:
    """Signs statements with the newest key of a key file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     signer = Signer.of(Path(folder) / "key", 1_700_000_000_000)
    ...     signer.public.verify(signer.name, b"text", signer.sign(b"text"))
    True
    """

    def __init__(self, private: Any, public: PublicKeys) -> None:
        self._private = private
        self.public = public
        self.name = public.newest

    @classmethod
    def of(cls, path: Path, now: int) -> Signer:
        """Read the key of a file, which is made where it is missing."""
        try:
            make_private(path, lambda: _new_file(now))
            return cls._read(path)
        except OSError as error:
            raise UserError(f"the signing key {path} cannot be kept there: {error.strerror}; {_INSTEAD}") from None

    @classmethod
    def existing(cls, path: Path) -> Signer:
        """Read the key of a file that is there already."""
        try:
            return cls._read(path)
        except OSError as error:
            raise UserError(f"there is no signing key in {path}: {error.strerror}") from None

    @classmethod
    def _read(cls, path: Path) -> Signer:
        text = read_private(path, _INSTEAD)
        private, ended, pairs = text.partition(_ENDS)
        if not private.startswith(_BEGINS) or not ended:
            raise UserError(f"the key file {path} is damaged: it holds no private key; restore it, or {_INSTEAD}")
        key = _loaded(private + ended, path)
        public = PublicKeys.read(pairs)
        if public.newest != key_name(_raw(key)):
            raise UserError(f"the key file {path} is damaged: its newest public key is not that of its private key")
        return cls(key, public)

    def sign(self, message: bytes) -> bytes:
        """Sign a message."""
        return self._private.sign(message)

    def rotated(self, path: Path, now: int) -> Signer:
        """Put a new key in the place of this one, which signs that the new one follows it."""
        with alone(path.parent):
            known = Signer._read(path)
            fresh = _ed25519().generate()
            raw = _raw(fresh)
            made = KeyStatement(key_name(raw), b64encode(raw).decode(), now, known.name)
            pairs = known.public.text + signed_pair(made, known.sign)
            replace_private(path, _pem(fresh) + pairs)
        return Signer._read(path)


def _new_file(now: int) -> str:
    fresh = _ed25519().generate()
    raw = _raw(fresh)
    sign: Callable[[bytes], bytes] = fresh.sign
    return _pem(fresh) + signed_pair(KeyStatement(key_name(raw), b64encode(raw).decode(), now), sign)


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ModuleNotFoundError as error:
        raise without_package(error) from error
    return Ed25519PrivateKey


def _pem(key: Any) -> str:
    from cryptography.hazmat.primitives import serialization as form

    made: bytes = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    return made.decode()


def _loaded(text: str, path: Path) -> Any:
    kind = _ed25519()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError):
        raise UserError(f"the key file {path} is damaged: its private key cannot be read; restore it") from None
    if not isinstance(key, kind):
        raise UserError(f"the key in {path} is no Ed25519 key; checkpoints are signed with no other")
    return key


def _raw(key: Any) -> bytes:
    return key.public_key().public_bytes_raw()
