"""What every scheme checks: a proof is of the key and the scheme that it is held against, and the key can be one."""

from __future__ import annotations

import base64
import hashlib
import sys

import cbor2
import msgspec
import pytest

from keyturn import NotAllowed, Proof, ProofRefused, UserError
from keyturn.proofs import SCHEMES, scheme, verify
from keyturn.proofs.base import PublicKey
from tests.table import each
from trials.signers import PASSKEY_KINDS, SSH_KINDS, PasskeySigner, SSHSigner, armored, b64u, of_fields, packed, signer

CHALLENGE = hashlib.sha256(b"what ada said").digest()
# The base point and 1: as a signature it is good on every message, for the "key" that is the neutral point.
FOR_ALL = bytes.fromhex("58" + "66" * 31 + "01" + "00" * 31)
NEUTRAL = b"\1" + bytes(31)


@each("kind", [*SSH_KINDS, *PASSKEY_KINDS])
def test_a_proof_names_its_key_and_its_scheme(kind: str) -> None:
    one = signer(kind)
    public, proof = one.public, one.sign(CHALLENGE)
    other = next(name for name in SCHEMES if name != proof.scheme)
    with pytest.raises(ProofRefused, match="names another key"):
        verify(public, CHALLENGE, Proof(proof.scheme, signer(kind, 1).public.id, proof.data))
    with pytest.raises(ProofRefused, match="takes a proof of"):
        verify(public, CHALLENGE, Proof(other, proof.key, proof.data))
    with pytest.raises(ProofRefused, match="takes a proof of"):
        scheme(public.scheme).verify(msgspec.structs.replace(public, scheme=other), CHALLENGE, proof)


@each("kind", [*SSH_KINDS, *PASSKEY_KINDS])
def test_the_text_of_a_key_has_one_form(kind: str) -> None:
    one = signer(kind)
    public, proof = one.public, one.sign(CHALLENGE)
    for text in (
        public.data + " ",
        public.data + "\n",
        " " + public.data,
        public.data + " ada",
        public.data + "\ud800",
    ):
        with pytest.raises(ProofRefused):
            verify(msgspec.structs.replace(public, data=text), CHALLENGE, proof)


def test_a_key_without_a_secret_signs_nothing_even_if_it_was_enrolled() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    Ed25519PublicKey.from_public_bytes(NEUTRAL).verify(FOR_ALL, b"whatever it says")  # nobody refuses it but we

    line = f"ssh-ed25519 {base64.b64encode(packed(b'ssh-ed25519', NEUTRAL)).decode()}"
    blob = base64.b64decode(line.split()[1])
    inner = packed(b"ssh-ed25519", FOR_ALL)
    body = b"SSHSIG\0\0\0\1" + packed(blob, b"keyturn", b"", b"sha512", inner)
    weak = PublicKey("ssh", scheme("ssh").fingerprint(line), line)
    with pytest.raises(ProofRefused, match="anyone could sign"):
        verify(weak, CHALLENGE, Proof("ssh", weak.id, armored(body)))

    honest = PasskeySigner("EdDSA")
    data = msgspec.json.decode(honest.public.data)
    data["key"] = b64u(cbor2.dumps({1: 1, 3: -8, -1: 6, -2: NEUTRAL}))
    text = msgspec.json.encode(data, order="sorted").decode()
    weak = PublicKey("passkey", scheme("passkey").fingerprint(text), text)
    forged = of_fields({**honest.fields(CHALLENGE), "signature": FOR_ALL})
    with pytest.raises(ProofRefused, match="anyone could sign"):
        verify(weak, CHALLENGE, Proof("passkey", weak.id, forged))


def test_bytes_after_the_numbers_of_ecdsa_are_refused() -> None:
    one = SSHSigner("ecdsa-sha2-nistp256")
    inner = one.inner(CHALLENGE)
    head = packed(b"ecdsa-sha2-nistp256")
    longer = head + packed(inner[len(head) + 4 :] + b"\0")
    with pytest.raises(ProofRefused, match="follows its end"):
        verify(one.public, CHALLENGE, Proof("ssh", one.public.id, armored(one.body(CHALLENGE, longer))))


def test_a_refusal_is_one_of_a_person() -> None:
    assert issubclass(ProofRefused, NotAllowed)
    with pytest.raises(ProofRefused, match="there is no scheme 'pgp'"):
        scheme("pgp")


@each("kind", [*SSH_KINDS, *PASSKEY_KINDS])
def test_a_missing_package_is_no_refusal(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without the package must not tell people that their signatures are bad."""
    one = signer(kind)
    public, proof = one.public, one.sign(CHALLENGE)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cryptography" if public.scheme == "ssh" else "webauthn", None)
        with pytest.raises(UserError, match=r"pip install 'keyturn\[") as refused:
            verify(public, CHALLENGE, proof)
    assert not isinstance(refused.value, ProofRefused)
