"""Keys in software that sign as ssh-keygen, a security key and a browser do; every part can be made wrong on purpose.

Nothing here is of the verifier's own code but its types: the formats are written a second time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from keyturn import Proof
from keyturn.proofs import scheme
from keyturn.proofs.base import Asked, PublicKey, Site

SITE = Site("localhost", ("http://localhost:8177", "https://inbox.localhost"))
SSH_KINDS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
PASSKEY_KINDS = ("ES256", "EdDSA", "RS256")


@cache
def _rsa(number: int, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def private_key(kind: str, number: int) -> Any:
    """A new private key of a kind; RSA keys are slow to make and are made once for each number."""
    if "ed25519" in kind or kind == "EdDSA":
        return ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{kind}/{number}".encode()).digest())
    if "rsa" in kind or kind == "RS256":
        return _rsa(number)
    secret = int.from_bytes(hashlib.sha256(f"{kind}/{number}".encode()).digest(), "big") >> 1
    return ec.derive_private_key(secret, ec.SECP256R1())


def packed(*strings: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(one)) + one for one in strings)


def mpint(number: int) -> bytes:
    return packed(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def signed_by(key: Any, data: bytes, hashed: hashes.HashAlgorithm | None = None) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), hashed or hashes.SHA256())
    return key.sign(data, ec.ECDSA(hashed or hashes.SHA256()))


@dataclass(frozen=True)
class SSHSigner:
    """Signs as `ssh-keygen -Y sign` does; a kind that begins with sk- as a security key does."""

    kind: str
    number: int = 0
    application: bytes = b"ssh:"
    namespace: bytes = b"keyturn"
    reserved: bytes = b""
    hashed: bytes = b"sha512"
    version: int = 1
    magic: bytes = b"SSHSIG"
    flags: int = 5
    count: int = 7
    algorithm: bytes | None = None
    tail: bytes = b""

    @property
    def blob(self) -> bytes:
        public = private_key(self.kind, self.number).public_key()
        name = packed(self.kind.encode())
        if "rsa" in self.kind:
            numbers = public.public_numbers()
            return name + mpint(numbers.e) + mpint(numbers.n)
        last = packed(self.application) if self.kind.startswith("sk-") else b""
        if "ed25519" in self.kind:
            return name + packed(public.public_bytes_raw()) + last
        form = serialization.PublicFormat.UncompressedPoint
        point = public.public_bytes(serialization.Encoding.X962, form)
        return name + packed(b"nistp256", point) + last

    @property
    def line(self) -> str:
        return f"{self.kind} {base64.b64encode(self.blob).decode()} of these tests"

    @property
    def public(self) -> PublicKey:
        return scheme("ssh").enrol(self.line)

    def inner(self, challenge: bytes) -> bytes:
        """The innermost signature, with the name of its algorithm."""
        digest = hashlib.new(self.hashed.decode(), challenge).digest()
        data = b"SSHSIG" + packed(self.namespace, self.reserved, self.hashed, digest)
        algorithm = self.algorithm or (b"rsa-sha2-512" if "rsa" in self.kind else self.kind.encode())
        counted = b""
        if self.kind.startswith("sk-"):
            counted = bytes([self.flags]) + struct.pack(">I", self.count)
            data = hashlib.sha256(self.application).digest() + counted + hashlib.sha256(data).digest()
        sizes = {b"rsa-sha2-512": hashes.SHA512(), b"ssh-rsa": hashes.SHA1()}
        value = signed_by(private_key(self.kind, self.number), data, sizes.get(algorithm))
        if "ecdsa" in self.kind:
            value = b"".join(map(mpint, utils.decode_dss_signature(value)))
        return packed(algorithm, value) + counted

    def body(self, challenge: bytes, inner: bytes | None = None) -> bytes:
        inner = self.inner(challenge) if inner is None else inner
        head = self.magic + struct.pack(">I", self.version)
        return head + packed(self.blob, self.namespace, self.reserved, self.hashed, inner) + self.tail

    def sign(self, challenge: bytes) -> Proof:
        return Proof("ssh", self.public.id, armored(self.body(challenge)))


def armored(body: bytes) -> bytes:
    text = base64.b64encode(body)
    lines = [text[begin : begin + 70] for begin in range(0, len(text), 70)]
    return b"\n".join([b"-----BEGIN SSH SIGNATURE-----", *lines, b"-----END SSH SIGNATURE-----", b""])


def dearmored(data: bytes) -> bytes:
    return base64.b64decode(b"".join(data.split(b"\n")[1:-2]))


@dataclass(frozen=True)
class PasskeySigner:
    """Signs as a browser with a platform authenticator does."""

    kind: str
    number: int = 0
    rp: str = "localhost"
    origin: str = "http://localhost:8177"
    type: str = "webauthn.get"
    flags: int = 0b101
    count: int = 7
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    tail: bytes = b""

    @property
    def credential(self) -> bytes:
        return hashlib.sha256(f"credential/{self.kind}/{self.number}".encode()).digest()

    @property
    def cose(self) -> bytes:
        public = private_key(self.kind, self.number).public_key()
        if self.kind == "EdDSA":
            return cbor2.dumps({1: 1, 3: -8, -1: 6, -2: public.public_bytes_raw()})
        numbers = public.public_numbers()
        if self.kind == "RS256":
            return cbor2.dumps({1: 3, 3: -257, -1: numbers.n.to_bytes(256, "big"), -2: numbers.e.to_bytes(3, "big")})
        x, y = numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})

    @property
    def public(self) -> PublicKey:
        return scheme("passkey").enrol(self.registration(b"e" * 32), label="phone", asked=Asked(b"e" * 32, SITE))

    def client(self, challenge: bytes) -> bytes:
        said = {"type": self.type, "challenge": b64u(challenge), "origin": self.origin, "crossOrigin": False}
        return json.dumps({**said, **self.more}).encode()

    def data(self) -> bytes:
        return hashlib.sha256(self.rp.encode()).digest() + bytes([self.flags]) + struct.pack(">I", self.count)

    def registration(self, challenge: bytes, *, fmt: str = "none") -> str:
        """What `navigator.credentials.create()` gives."""
        made = replace(self, type="webauthn.create", count=0, flags=self.flags | 0x40)
        attested = bytes(16) + struct.pack(">H", len(self.credential)) + self.credential + self.cose
        data = made.data() + attested + self.tail
        client = made.client(challenge)
        statement: dict[str, Any] = {}
        if fmt == "packed":
            alg = {"ES256": -7, "EdDSA": -8, "RS256": -257}[self.kind]
            signature = signed_by(private_key(self.kind, self.number), data + hashlib.sha256(client).digest())
            statement = {"alg": alg, "sig": signature}
        attestation = cbor2.dumps({"fmt": fmt, "attStmt": statement, "authData": data})
        answer = {"clientDataJSON": b64u(client), "attestationObject": b64u(attestation)}
        name = b64u(self.credential)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": answer})

    def fields(self, challenge: bytes) -> dict[str, bytes]:
        data = self.data() + self.tail
        client = self.client(challenge)
        signature = signed_by(private_key(self.kind, self.number), data + hashlib.sha256(client).digest())
        return {"authenticatorData": data, "clientDataJSON": client, "id": self.credential, "signature": signature}

    def answer(self, challenge: bytes) -> str:
        """What `navigator.credentials.get()` gives."""
        said = {name: b64u(value) for name, value in self.fields(challenge).items()}
        name = said.pop("id")
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": {**said, "userHandle": None}})

    def sign(self, challenge: bytes) -> Proof:
        return Proof("passkey", self.public.id, of_fields(self.fields(challenge)))


def of_fields(fields: dict[str, bytes]) -> bytes:
    said = {name: b64u(value) for name, value in fields.items()}
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def fields_of(data: bytes) -> dict[str, bytes]:
    said: dict[str, str] = json.loads(data)
    return {name: base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)) for name, value in said.items()}


def b64u(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


Signer = SSHSigner | PasskeySigner


def signer(kind: str, number: int = 0, **words: Any) -> Signer:
    """The key of that number of a kind."""
    if kind in PASSKEY_KINDS:
        return PasskeySigner(kind, number, **words)
    return SSHSigner(kind, number, **words)
