"""Whatever is sent as a key or as a proof is taken or is `ProofRefused`: no other error, and no lie is taken."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn import Proof, ProofRefused
from keyturn.proofs import SCHEMES, scheme, verify
from keyturn.proofs.base import Asked, PublicKey
from keyturn.proofs.passkey import proof_of
from tests.table import each
from trials.signers import (
    PASSKEY_KINDS,
    SITE,
    SSH_KINDS,
    PasskeySigner,
    SSHSigner,
    armored,
    b64u,
    dearmored,
    fields_of,
    of_fields,
    packed,
    signer,
)

CHALLENGE = hashlib.sha256(b"what ada said").digest()
KEYS = {kind: (signer(kind).public, signer(kind).sign(CHALLENGE)) for kind in (*SSH_KINDS, *PASSKEY_KINDS)}
kinds = st.sampled_from(sorted(KEYS))
ssh_kinds = st.sampled_from(SSH_KINDS)
pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"SSHSIG", b"keyturn", b"sha512", b"\0\0\0\1", b"\xff\xff\xff\xff", b"ssh-ed25519", b"ssh-rsa"]),
    st.binary(max_size=12).map(packed),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=8).map(b64u),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["id", "response", "clientDataJSON", "authenticatorData", "signature", "attestationObject",
                         "type", "challenge", "origin", "x"]), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


def refused(public: PublicKey, data: bytes, count: int | None = None) -> None:
    with pytest.raises(ProofRefused):
        verify(public, CHALLENGE, Proof(public.scheme, public.id, data), last_count=count)


@given(kinds, st.binary(max_size=300))
def test_bytes_are_no_proof(kind: str, data: bytes) -> None:
    refused(KEYS[kind][0], data)


@given(ssh_kinds, st.lists(pieces, max_size=8))
def test_an_armored_body_of_pieces_is_no_proof(kind: str, body: list[bytes]) -> None:
    refused(KEYS[kind][0], armored(b"".join(body)))


@given(ssh_kinds, st.lists(pieces, max_size=6))
def test_an_inner_signature_of_pieces_is_no_proof(kind: str, inner: list[bytes]) -> None:
    body = SSHSigner(kind).body(CHALLENGE, b"".join(inner))
    refused(KEYS[kind][0], armored(body))


@given(ssh_kinds, st.data())
def test_a_signature_cut_or_changed_anywhere_is_no_proof(kind: str, data: st.DataObject) -> None:
    body = bytearray(dearmored(KEYS[kind][1].data))
    place = data.draw(st.integers(0, len(body) - 1))
    if data.draw(st.booleans()):
        body[place] ^= data.draw(st.integers(1, 255))
    else:
        body = body[:place]
    refused(KEYS[kind][0], armored(bytes(body)))


@given(st.sampled_from(PASSKEY_KINDS), json_values)
def test_json_is_no_proof(kind: str, value: Any) -> None:
    refused(KEYS[kind][0], json.dumps(value).encode())


@given(st.sampled_from(PASSKEY_KINDS), st.data())
def test_a_passkeys_field_changed_anywhere_is_no_proof(kind: str, data: st.DataObject) -> None:
    fields = fields_of(KEYS[kind][1].data)
    name = data.draw(st.sampled_from(sorted(fields)))
    value = bytearray(fields[name])
    place = data.draw(st.integers(0, len(value) - 1))
    if data.draw(st.booleans()):
        value[place] ^= data.draw(st.integers(1, 255))
    else:
        value = value[:place]
    refused(KEYS[kind][0], of_fields({**fields, name: bytes(value)}))


@given(st.sampled_from(PASSKEY_KINDS), json_values, st.binary(max_size=60))
def test_what_a_browser_never_says_is_no_proof(kind: str, client: Any, authenticator: bytes) -> None:
    fields = fields_of(KEYS[kind][1].data)
    refused(KEYS[kind][0], of_fields({**fields, "clientDataJSON": json.dumps(client).encode()}))
    refused(KEYS[kind][0], of_fields({**fields, "authenticatorData": authenticator}))


@given(st.sampled_from(sorted(SCHEMES)), st.text(max_size=80) | json_values.map(json.dumps))
def test_what_is_given_is_a_key_or_is_refused(name: str, given_text: str) -> None:
    asked = Asked(CHALLENGE, SITE) if name == "passkey" else None
    with pytest.raises(ProofRefused):
        scheme(name).enrol(given_text, asked=asked)


@given(ssh_kinds, st.lists(pieces, max_size=6))
def test_a_line_of_pieces_is_a_key_or_is_refused(kind: str, blob: list[bytes]) -> None:
    line = f"{kind} {base64.b64encode(packed(kind.encode()) + b''.join(blob)).decode()}"
    try:
        made = scheme("ssh").enrol(line)
    except ProofRefused:
        return
    assert made.data == line


@given(st.binary(max_size=200))
def test_an_attestation_of_bytes_is_refused(attestation: bytes) -> None:
    answer = json.loads(PasskeySigner("ES256").registration(CHALLENGE))
    answer["response"]["attestationObject"] = b64u(attestation)
    with pytest.raises(ProofRefused):
        scheme("passkey").enrol(json.dumps(answer), asked=Asked(CHALLENGE, SITE))


@given(st.data())
def test_an_attestation_changed_anywhere_names_another_key_or_is_refused(data: st.DataObject) -> None:
    answer = json.loads(PasskeySigner("ES256").registration(CHALLENGE))
    value = bytearray(base64.urlsafe_b64decode(answer["response"]["attestationObject"] + "=="))
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    answer["response"]["attestationObject"] = b64u(bytes(value))
    try:
        made = scheme("passkey").enrol(json.dumps(answer), asked=Asked(CHALLENGE, SITE))
    except ProofRefused:
        return
    # Of what an enrolment without attestation says, the device's make and its first count are bound by nothing.
    assert made.data == KEYS["ES256"][0].data or made.id != KEYS["ES256"][0].id


@given(json_values.map(json.dumps) | st.text(max_size=40))
def test_an_answer_of_a_page_is_of_a_key_or_is_refused(answer: str) -> None:
    with pytest.raises(ProofRefused):
        proof_of(answer, [KEYS["ES256"][0]])


@given(kinds, st.text(max_size=60), st.text(max_size=60), st.sampled_from(["data", "id", "scheme"]))
def test_a_key_that_was_altered_verifies_nothing(kind: str, text: str, more: str, field: str) -> None:
    public, proof = KEYS[kind]
    for value in (text, getattr(public, field)[:10] + more):
        altered = msgspec.structs.replace(public, **{field: value})
        if altered != public:
            with pytest.raises(ProofRefused):
                verify(altered, CHALLENGE, Proof(proof.scheme, altered.id, proof.data))


@each("kind", sorted(KEYS))
def test_what_is_fuzzed_is_good(kind: str) -> None:
    public, proof = KEYS[kind]
    verify(public, CHALLENGE, proof)
