"""Verify OpenSSH signatures: `ssh-keygen -Y sign -n keyturn` over the 32 bytes of a challenge.

The format is PROTOCOL.sshsig of OpenSSH. What it leaves open is closed here: only the listed algorithms, nothing after
the last field, no reserved bytes, and a security key must have been touched (ssh-keygen itself does not ask for that).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..core.errors import UserError
from ..core.people import ProofRefused
from .base import Asked, Checked, PublicKey, Scheme, checked_label, strict_base64
from .curves import check_ed25519, check_rsa
from .wire import Wire, packed

NAMESPACE = b"keyturn"
_MAGIC = b"SSHSIG"
_HASHES: dict[bytes, Callable[[bytes], Any]] = {b"sha512": hashlib.sha512, b"sha256": hashlib.sha256}
_ARMOR = re.compile(
    r"-----BEGIN SSH SIGNATURE-----\n((?:[A-Za-z0-9+/=]{1,128}\n)+)-----END SSH SIGNATURE-----\n*", re.ASCII
)
_LINE = re.compile(r"(\S+)[ \t]+(\S+)(?:[ \t]++(.*))?")
_MOST_LINE = 16_384
_SK_ED25519 = b"sk-ssh-ed25519@openssh.com"
_SK_ECDSA = b"sk-ecdsa-sha2-nistp256@openssh.com"
# The algorithms by which a key of each type may sign; "ssh-rsa" as an algorithm is SHA-1, and is not here.
_SIGNS: dict[bytes, tuple[bytes, ...]] = {
    b"ssh-ed25519": (b"ssh-ed25519",),
    b"ecdsa-sha2-nistp256": (b"ecdsa-sha2-nistp256",),
    b"ssh-rsa": (b"rsa-sha2-512", b"rsa-sha2-256"),
    _SK_ED25519: (_SK_ED25519,),
    _SK_ECDSA: (_SK_ECDSA,),
}
_PRESENT = 1
_VERIFIED = 4


class _Key(msgspec.Struct, frozen=True):
    """Holds a public key as it was read: `application` is set for security keys."""

    kind: bytes
    blob: bytes
    key: Any
    application: bytes | None = None


class SSHScheme(Scheme):
    """Verifies signatures that ssh-keygen, an SSH agent or a security key made.

    >>> SSHScheme.name
    'ssh'
    """

    name = "ssh"

    def enrol(self, given: str, *, label: str = "", asked: Asked | None = None) -> PublicKey:
        """Read the line of a public key, as a `.pub` file has it; its comment is the label unless one is given.

        >>> line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIVPJTNwEO5HKtTBdmEWwTxECsDIcUsqeXGzhVQ4yWKo ada@home"
        >>> SSHScheme().enrol(line).label
        'ada@home'
        """
        self.require()
        if asked is not None:
            raise UserError("an ssh key answers no challenge when it is enrolled: leave out asked=")
        kind, text, comment = _parts(given)
        try:
            key = _read_key(strict_base64(text, "the key"))
        except ProofRefused:
            raise
        except Exception as error:  # what a parser makes of a stranger's bytes
            raise ProofRefused(f"the key cannot be read ({type(error).__name__})") from None
        if key.kind.decode() != kind:
            raise ProofRefused(f"the key says {kind} and is another kind")
        data = f"{kind} {text}"
        return PublicKey(self.name, self.fingerprint(data), data, checked_label(label or comment))

    def fingerprint(self, data: str) -> str:
        """Return the fingerprint that `ssh-keygen -l` shows."""
        kind, text, _ = _parts(data)
        blob = strict_base64(text, "the key")
        if data != f"{kind} {text}" or not blob.startswith(packed(kind.encode())):
            raise ProofRefused("the key's text is not the one that was enrolled")
        return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).rstrip(b"=").decode()

    def require(self) -> None:
        """Raise `UserError` where cryptography is missing."""
        try:
            import cryptography  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError:
            raise UserError("ssh keys need a package: pip install 'keyturn[ssh]'") from None

    def _check(self, public: PublicKey, challenge: bytes, data: bytes, last_count: int | None) -> Checked:
        wire = Wire(dearmored(data))
        if wire.take(len(_MAGIC)) != _MAGIC or wire.number() != 1:
            raise ProofRefused("it is no ssh signature of version 1")
        blob = wire.string()
        namespace = wire.string()
        reserved = wire.string()
        named_hash = wire.string()
        signature = Wire(wire.string())
        wire.end()
        key = _read_key(strict_base64(_parts(public.data)[1], "the key"))
        if blob != key.blob:
            raise ProofRefused("another key made it")
        if namespace != NAMESPACE:
            raise ProofRefused("it was made for another namespace: sign with -n keyturn")
        if reserved or named_hash not in _HASHES:
            raise ProofRefused("its hash is neither sha512 nor sha256")
        digest = _HASHES[named_hash](challenge).digest()
        signed = _MAGIC + packed(namespace, reserved, named_hash, digest)
        if key.application is None:
            _verify(key, signature, signed)
            return Checked()
        return _verify_touched(key, signature, signed)


def dearmored(data: bytes) -> bytes:
    """Return the bytes within the armor of an ssh signature, or raise `ProofRefused`.

    >>> dearmored(b"-----BEGIN SSH SIGNATURE-----\\nU1NI\\n-----END SSH SIGNATURE-----\\n")
    b'SSH'
    """
    match = _ARMOR.fullmatch(data.decode("ascii", "replace").replace("\r\n", "\n"))
    if match is None:
        raise ProofRefused("it does not have the form of an ssh signature")
    return strict_base64(match[1].replace("\n", ""), "the signature")


def key_of(data: bytes) -> str:
    """Return the fingerprint of the key that an ssh signature names, or raise `ProofRefused`; it verifies nothing."""
    wire = Wire(dearmored(data))
    wire.take(len(_MAGIC) + 4)
    return "SHA256:" + base64.b64encode(hashlib.sha256(wire.string()).digest()).rstrip(b"=").decode()


def _parts(given: object) -> tuple[str, str, str]:
    """Return type, base64 and comment of the line of a public key."""
    if not isinstance(given, str) or len(given) > _MOST_LINE:
        raise ProofRefused("a key is the one line of a .pub file")
    match = _LINE.fullmatch(given.strip())
    if match is None:
        raise ProofRefused("a key is the one line of a .pub file")
    if match[1].encode("utf-8", "replace") not in _SIGNS:
        known = ", ".join(kind.decode() for kind in _SIGNS)
        raise ProofRefused(f"a key is of one of the types {known}, and its line begins with that")
    return match[1], match[2], match[3] or ""


def _read_key(blob: bytes) -> _Key:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    wire = Wire(blob)
    kind = wire.string()
    if kind not in _SIGNS:
        raise ProofRefused("a key of that type cannot sign here")
    if kind == b"ssh-rsa":
        exponent = wire.integer()
        key: Any = rsa.RSAPublicNumbers(exponent, wire.integer()).public_key()
        check_rsa(key)
    elif kind in (b"ssh-ed25519", _SK_ED25519):
        raw = wire.string()
        check_ed25519(raw)
        key = ed25519.Ed25519PublicKey.from_public_bytes(raw)
    else:
        if wire.string() != b"nistp256":
            raise ProofRefused("a key of ECDSA is one on the curve nistp256")
        point = wire.string()
        if len(point) != 65:
            raise ProofRefused("the key's point is not written in full")
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    application = wire.string() if kind.startswith(b"sk-") else None
    wire.end()
    return _Key(kind, blob, key, application)


def _verify_touched(key: _Key, signature: Wire, signed: bytes) -> Checked:
    """Verify the signature of a security key, which signs flags and a counter as well; nobody signs without a touch."""
    tail = signature.tail(5)
    flags = tail[0]
    count = int.from_bytes(tail[1:], "big")
    application = hashlib.sha256(key.application or b"").digest()
    _verify(key, signature, application + tail + hashlib.sha256(signed).digest())
    if not flags & _PRESENT:
        raise ProofRefused("the security key was not touched: make one without no-touch-required")
    return Checked(count, present=True, verified=bool(flags & _VERIFIED))


def _verify(key: _Key, signature: Wire, signed: bytes) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

    algorithm = signature.string()
    if algorithm not in _SIGNS[key.kind]:
        raise ProofRefused("it was signed by an algorithm that is refused, such as SHA-1")
    value = signature.string()
    signature.end()
    try:
        if key.kind == b"ssh-rsa":
            size = hashes.SHA512() if algorithm == b"rsa-sha2-512" else hashes.SHA256()
            key.key.verify(value, signed, padding.PKCS1v15(), size)
        elif key.kind in (b"ssh-ed25519", _SK_ED25519):
            key.key.verify(value, signed)
        else:
            numbers = Wire(value)
            first = numbers.integer()
            encoded = utils.encode_dss_signature(first, numbers.integer())
            numbers.end()
            key.key.verify(encoded, signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise ProofRefused("it is not this key's signature on the decision") from None
