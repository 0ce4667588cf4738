"""The ways to forge a signature, or to move a true one: each makes of a true one a claim that must be refused.

A way says for which schemes it is; what it returns is claimed of the same person, with what was counted before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from keyturn import Proof
from keyturn.core.challenge import decision_challenge, key_challenge
from keyturn.core.records import Decision, GrantTerms
from keyturn.proofs.base import PublicKey

from .signers import (
    PASSKEY_KINDS,
    SSH_KINDS,
    PasskeySigner,
    Signer,
    SSHSigner,
    armored,
    dearmored,
    fields_of,
    of_fields,
    signer,
)

KINDS = (*SSH_KINDS, *PASSKEY_KINDS)


@dataclass(frozen=True)
class Said:
    """What somebody said of which request: all that a challenge is made of."""

    tenant: str
    request: str
    revision: int
    decision: Decision
    grant: GrantTerms | None = None

    @property
    def challenge(self) -> bytes:
        return decision_challenge(self.tenant, self.request, self.revision, self.decision, self.grant)


@dataclass(frozen=True)
class Claim:
    """A proof, of which key it is said to be, what it is said to sign, and what that key counted before."""

    public: PublicKey
    challenge: bytes
    proof: Proof
    last_count: int | None = None


@dataclass(frozen=True)
class Genuine:
    """A true signature, and all that an attacker has: what was said, and who signed."""

    said: Said
    signer: Signer
    public: PublicKey
    proof: Proof
    dice: random.Random

    @property
    def ssh(self) -> bool:
        return isinstance(self.signer, SSHSigner)

    def claim(self, **words: Any) -> Claim:
        whole: dict[str, Any] = {"public": self.public, "challenge": self.said.challenge, "proof": self.proof, **words}
        return Claim(**whole)

    def data(self, data: bytes, **words: Any) -> Claim:
        return self.claim(proof=Proof(self.proof.scheme, self.proof.key, data), **words)

    def of(self, other: Signer, challenge: bytes | None = None) -> Claim:
        """What another key, or this one made otherwise, signs in the name of this one."""
        challenge = self.said.challenge if challenge is None else challenge
        if isinstance(other, PasskeySigner):
            return self.data(of_fields(other.fields(challenge)))
        return self.data(armored(other.body(challenge)))


Way = Callable[[Genuine], Claim | None]
WAYS: dict[str, Way] = {}


def way(make: Way) -> Way:
    """Put a way into the table, by its name in words."""
    WAYS[make.__name__.replace("_", " ")] = make
    return make


def decided(dice: random.Random) -> Said:
    """A decision of one of the kinds that people make."""
    digest, request = f"{dice.getrandbits(256):064x}", f"{dice.getrandbits(128):032x}"
    words: dict[str, Any] = {"note": dice.choice([None, "seen", ""])}
    verdict = dice.choice(["approve", "edit", "reject", "answer", "ran"])
    if verdict == "edit":
        words |= {"args": f'{{"amount":{dice.randrange(100)}}}', "basis": dice.choice([None, {"/a": "9f"}])}
    if verdict in ("answer", "ran"):
        words["output"] = dice.choice(["sent", {"amount": 5}, [1, 1.5, None]])
    if verdict == "reject":
        words["message"] = dice.choice([None, "no", "not today"])
    grant = None
    if verdict == "approve" and dice.random() < 0.5:
        grant = GrantTerms("g", "desk", digest, where={"amount": {"le": 50}}, expires_at=dice.randrange(9**9), uses=3)
    return Said("acme", request, dice.randrange(1, 4), Decision("r/1.0", verdict, digest, **words), grant)


def signed(dice: random.Random, kind: str) -> Genuine:
    """A true signature of a decision by a key of a kind."""
    said = decided(dice)
    key = signer(kind, 0, count=dice.randrange(2, 1_000))
    return Genuine(said, key, key.public, key.sign(said.challenge), dice)


# ------------------------------------------------------------------------------------------------ moved


@way
def to_another_request(true: Genuine) -> Claim:
    return true.claim(challenge=replace(true.said, request=f"{true.dice.getrandbits(128):032x}").challenge)


@way
def to_another_tenant(true: Genuine) -> Claim:
    return true.claim(challenge=replace(true.said, tenant="acme2").challenge)


@way
def to_the_next_asking(true: Genuine) -> Claim:
    return true.claim(challenge=replace(true.said, revision=true.said.revision + 1).challenge)


@way
def to_other_bytes(true: Genuine) -> Claim:
    return _decision(true, digest=f"{true.dice.getrandbits(256):064x}")


@way
def to_another_verdict(true: Genuine) -> Claim:
    verdicts = {"approve", "edit", "reject", "answer", "ran", "did_not_run", "retry"} - {true.said.decision.verdict}
    return _decision(true, verdict=true.dice.choice(sorted(verdicts)))


@way
def to_other_arguments(true: Genuine) -> Claim:
    return _decision(true, args='{"amount":5000}')


@way
def to_another_answer(true: Genuine) -> Claim:
    return _decision(true, output="something else")


@way
def to_other_words(true: Genuine) -> Claim:
    return _decision(true, **{true.dice.choice(["note", "message"]): "somebody else's"})


@way
def with_a_grant_put_in_or_taken_out(true: Genuine) -> Claim:
    grant = None if true.said.grant else GrantTerms("g", "desk", "tool")
    return true.claim(challenge=replace(true.said, grant=grant).challenge)


@way
def with_a_wider_grant(true: Genuine) -> Claim | None:
    if true.said.grant is None:
        return None
    wider = true.dice.choice([{"where": None}, {"uses": None}, {"expires_at": None}, {"uses": 4}, {"reach": "all"}])
    grant = msgspec.structs.replace(true.said.grant, **wider)
    return true.claim(challenge=replace(true.said, grant=grant).challenge)


@way
def to_the_word_on_a_key(true: Genuine) -> Claim:
    words = (true.said.tenant, "ada", true.public.scheme, true.public.id, true.public.data.encode())
    return true.claim(challenge=key_challenge(*words))


@way
def to_another_persons_key(true: Genuine) -> Claim:
    other = signer(true.signer.kind, 1).public
    return true.claim(public=other, proof=Proof(true.proof.scheme, other.id, true.proof.data))


@way
def to_a_key_of_the_other_scheme(true: Genuine) -> Claim:
    other = signer(true.dice.choice(PASSKEY_KINDS if true.ssh else SSH_KINDS)).public
    named = true.dice.choice([true.proof.scheme, other.scheme])
    return true.claim(public=other, proof=Proof(named, other.id, true.proof.data))


@way
def said_to_be_of_another_key(true: Genuine) -> Claim:
    return true.claim(proof=Proof(true.proof.scheme, "SHA256:" + "A" * 43, true.proof.data))


@way
def again_with_the_count_of_before(true: Genuine) -> Claim | None:
    if true.ssh and not true.signer.kind.startswith("sk-"):
        return None
    return true.claim(last_count=true.signer.count + true.dice.choice([0, 0, 1, 1_000]))


# ----------------------------------------------------------------------------------------------- forged


@way
def by_another_key(true: Genuine) -> Claim:
    return true.of(signer(true.signer.kind, 1))


@way
def by_another_key_under_this_ones_name(true: Genuine) -> Claim:
    other = signer(true.signer.kind, 1)
    if isinstance(other, PasskeySigner):
        theirs = other.fields(true.said.challenge)
        return true.data(of_fields({**theirs, "id": fields_of(true.proof.data)["id"]}))
    assert isinstance(true.signer, SSHSigner)
    return true.data(armored(true.signer.body(true.said.challenge, other.inner(true.said.challenge))))


@way
def a_bit_flipped(true: Genuine) -> Claim:
    if true.ssh:
        body = bytearray(dearmored(true.proof.data))
        body[true.dice.randrange(len(body))] ^= 1 << true.dice.randrange(8)
        return true.data(armored(bytes(body)))
    fields = fields_of(true.proof.data)
    name = true.dice.choice(sorted(fields))
    value = bytearray(fields[name])
    value[true.dice.randrange(len(value))] ^= 1 << true.dice.randrange(8)
    return true.data(of_fields({**fields, name: bytes(value)}))


@way
def a_letter_of_its_text_changed(true: Genuine) -> Claim:
    data = bytearray(true.proof.data)
    place = true.dice.randrange(len(data) - 1)  # the line end after the armor may be left out
    data[place] = true.dice.choice(sorted({*b"ABCabc019{}\"' -"} - {data[place]}))
    return true.data(bytes(data))


@way
def cut_short(true: Genuine) -> Claim:
    if true.ssh and true.dice.random() < 0.5:
        body = dearmored(true.proof.data)
        return true.data(armored(body[: true.dice.randrange(1, len(body))]))
    return true.data(true.proof.data[: true.dice.randrange(1, len(true.proof.data) - 1)])


@way
def with_more_after_it(true: Genuine) -> Claim:
    more = true.dice.randbytes(true.dice.randrange(1, 9))
    if true.ssh:
        return true.data(armored(dearmored(true.proof.data) + more))
    fields = fields_of(true.proof.data)
    name = true.dice.choice(["authenticatorData", "signature", "id"])
    return true.data(of_fields({**fields, name: fields[name] + more}))


@way
def numbers_written_otherwise(true: Genuine) -> Claim | None:
    """DER or mpint with a zero before, or a number beyond the order: the same signature for a lax reader."""
    fields = None if true.ssh else fields_of(true.proof.data)
    if fields is not None and true.signer.kind == "ES256":
        der = fields["signature"]
        longer = der[:1] + bytes([der[1] + 1]) + der[2:3] + bytes([der[3] + 1]) + b"\0" + der[4:]
        wrong = true.dice.choice([longer, der[:1] + b"\x81" + der[1:], b"\x30\x80" + der[2:] + b"\0\0"])
        return true.data(of_fields({**fields, "signature": wrong}))
    if isinstance(true.signer, SSHSigner) and "ecdsa" in true.signer.kind:
        body = dearmored(true.proof.data)
        sized = true.signer.kind.encode()
        at = body.rindex(sized) + len(sized)
        size = int.from_bytes(body[at + 4 : at + 8], "big")
        longer = (size + 1).to_bytes(4, "big") + b"\0" + body[at + 8 :]
        return true.data(armored(body[: at + 4] + longer))
    return None


def _decision(true: Genuine, **words: Any) -> Claim:
    decision = msgspec.structs.replace(true.said.decision, **words)
    return true.claim(challenge=replace(true.said, decision=decision).challenge)


# ----------------------------------------------------------------- by the very key, of something else

SSH_OTHERWISE: tuple[dict[str, Any], ...] = (
    {"namespace": b"git"}, {"namespace": b"file"}, {"namespace": b""}, {"reserved": b"x"}, {"hashed": b"sha1"},
    {"hashed": b"sha384"}, {"version": 0}, {"version": 2}, {"magic": b"SSHSIH"}, {"tail": b"\0"},
    {"algorithm": b"ssh-rsa"}, {"algorithm": b"ssh-dss"},
)  # fmt: skip
TOUCH_OTHERWISE: tuple[dict[str, Any], ...] = ({"flags": 0}, {"flags": 4}, {"application": b"ssh:other"})
PASSKEY_OTHERWISE: tuple[dict[str, Any], ...] = (
    {"rp": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "http://localhost"},
    {"origin": "http://localhost:8178"}, {"type": "webauthn.create"}, {"type": "payment.get"}, {"flags": 0},
    {"flags": 1}, {"flags": 4}, {"flags": 0b10101}, {"flags": 0x85}, {"more": {"crossOrigin": True}},
    {"more": {"topOrigin": "https://evil.example"}}, {"tail": b"\0"}, {"more": {"challenge": "AAAA"}},
)  # fmt: skip


@way
def by_this_key_in_another_form(true: Genuine) -> Claim:
    forms = SSH_OTHERWISE if true.ssh else PASSKEY_OTHERWISE
    if true.signer.kind.startswith("sk-"):
        forms += TOUCH_OTHERWISE
    return true.of(replace(true.signer, **true.dice.choice(forms)))
