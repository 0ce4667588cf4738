"""Passkeys: what a browser signs is verified, and whatever of it is another's, another site's or moved is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest

from keyturn import Proof, ProofRefused, UserError
from keyturn.core.challenge import decision_challenge
from keyturn.core.records import Decision
from keyturn.proofs import passkey, scheme, verify
from keyturn.proofs.base import Asked, Site
from keyturn.proofs.passkey import assertion_options, proof_of, registration_options
from tests.table import each
from trials.signers import PASSKEY_KINDS, SITE, PasskeySigner, b64u, fields_of, of_fields

CHALLENGE = hashlib.sha256(b"what ada said").digest()
OTHER = hashlib.sha256(b"what ada did not say").digest()
ONE = PasskeySigner("ES256")
TWO = PasskeySigner("ES256", 1)
RECORDED: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("recorded_passkeys.json").read_text(encoding="utf-8")
)
CHROMIUM = Site("localhost", ("http://localhost:8177",))


def recorded_key(case: dict[str, Any]) -> Any:
    asked = Asked(bytes.fromhex(case["enrolled_challenge"]), CHROMIUM)
    return scheme("passkey").enrol(json.dumps(case["registration"]), label=case["name"], asked=asked)


@each("case", RECORDED, ids=lambda case: case["name"])
def test_what_chromium_signed_is_verified(case: dict[str, Any]) -> None:
    """Recorded from a real browser (record_passkeys.py): the challenges are those of the decisions of that day."""
    public = recorded_key(case)
    count = None
    for signed in case["signed"]:
        decision = Decision("r/1.0", signed["verdict"], "5e1f" * 16)
        challenge = decision_challenge("acme", "00112233445566778899aabbccddeeff", 1, decision)
        assert challenge.hex() == signed["challenge"]
        proof = proof_of(json.dumps(signed["answer"]), [public])
        checked = verify(public, challenge, proof, last_count=count)
        assert (checked.present, checked.verified) == (True, True)
        assert checked.count is not None
        count = checked.count
        with pytest.raises(ProofRefused, match="something else"):
            verify(public, OTHER, proof)
        with pytest.raises(ProofRefused, match="did not increase"):
            verify(public, challenge, proof, last_count=count)


@each("case", RECORDED, ids=lambda case: case["name"])
def test_what_chromium_signed_for_nobody_it_knew_is_refused(case: dict[str, Any]) -> None:
    public = recorded_key(case)
    proof = proof_of(json.dumps(case["not_verified"]["answer"]), [public])
    with pytest.raises(ProofRefused, match="did not verify the person"):
        verify(public, bytes.fromhex(case["not_verified"]["challenge"]), proof)


def test_a_recorded_signature_is_of_its_own_key() -> None:
    keys = [recorded_key(case) for case in RECORDED]
    assert len({key.id for key in keys}) == len(keys) == 4
    answer = json.dumps(RECORDED[0]["signed"][0]["answer"])
    with pytest.raises(ProofRefused, match="not enrolled"):
        proof_of(answer, keys[1:])
    proof = proof_of(answer, keys)
    for other in keys[1:]:
        moved = Proof("passkey", other.id, proof.data)
        with pytest.raises(ProofRefused, match="another passkey"):
            verify(other, bytes.fromhex(RECORDED[0]["signed"][0]["challenge"]), moved)


@each("kind", PASSKEY_KINDS)
def test_every_algorithm_signs(kind: str) -> None:
    signer = PasskeySigner(kind)
    public = signer.public
    proof = proof_of(signer.answer(CHALLENGE), [TWO.public, public])
    assert verify(public, CHALLENGE, proof, last_count=6).count == 7
    with pytest.raises(ProofRefused, match="something else"):
        verify(public, OTHER, proof)


def changed(**fields: bytes) -> Callable[[], Proof]:
    """A true proof with other bytes in some field."""

    def make() -> Proof:
        true = ONE.sign(CHALLENGE)
        return Proof("passkey", true.key, of_fields({**fields_of(true.data), **fields}))

    return make


def by(**words: Any) -> Callable[[], Proof]:
    """A proof that the very key signed, of something else than it should be."""

    def make() -> Proof:
        return Proof("passkey", ONE.public.id, of_fields(replace(ONE, **words).fields(CHALLENGE)))

    return make


class Twice(PasskeySigner):
    """A browser that writes a name twice, so that two readers could see two origins."""

    def client(self, challenge: bytes) -> bytes:
        return super().client(challenge).replace(b'{"type"', b'{"origin": "https://evil.example", "type"')


def twice() -> Proof:
    return Proof("passkey", ONE.public.id, of_fields(Twice("ES256").fields(CHALLENGE)))


def rewritten(make: Callable[[dict[str, Any]], Any]) -> Callable[[], Proof]:
    """A true proof written in another way."""

    def made() -> Proof:
        true = ONE.sign(CHALLENGE)
        text = make(json.loads(true.data))
        return Proof("passkey", true.key, text if isinstance(text, bytes) else json.dumps(text).encode())

    return made


def plain(said: dict[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


TRUE = ONE.fields(CHALLENGE)
REFUSED: list[tuple[str, Callable[[], Proof], str]] = [
    ("another origin", by(origin="https://evil.example"), "another origin"),
    ("another port", by(origin="http://localhost:8178"), "another origin"),
    ("an origin that begins so", by(origin="http://localhost:8177.evil.example"), "another origin"),
    ("no origin", by(origin=""), "another origin"),
    ("another site", by(rp="evil.example"), "another site"),
    ("a registration", by(type="webauthn.create"), "something else than"),
    ("a payment", by(type="payment.get"), "something else than"),
    ("in a frame", by(more={"crossOrigin": True}), "frame of another site"),
    ("in a frame, said otherwise", by(more={"crossOrigin": 1}), "frame of another site"),
    ("below another page", by(more={"topOrigin": "https://evil.example"}), "frame of another site"),
    ("nobody there", by(flags=0b100), "was not touched"),
    ("nobody verified", by(flags=0b001), "did not verify the person"),
    ("backed up and not able to be", by(flags=0b10101), "cannot be read"),
    ("a name twice", twice, "twice"),
    ("data that says there is more", by(flags=0b10000101), "cannot be read"),
    ("bytes after the data", by(tail=b"\0"), "cannot be read"),
    ("an attested key in it", by(flags=0b1000101, tail=bytes(16) + b"\0\1x" + ONE.cose), "new key"),
    ("another count", changed(authenticatorData=TRUE["authenticatorData"][:-1] + b"\xff"), "on the decision"),
    ("a cut signature", changed(signature=TRUE["signature"][:-1]), "on the decision"),
    ("a longer signature", changed(signature=TRUE["signature"] + b"\0"), "on the decision"),
    ("no signature", changed(signature=b""), "on the decision"),
    ("another id", changed(id=TWO.credential), "another passkey"),
    ("another's proof", lambda: Proof("passkey", ONE.public.id, TWO.sign(CHALLENGE).data), "another passkey"),
    ("another's signature", changed(signature=TWO.fields(CHALLENGE)["signature"]), "on the decision"),
    ("spaces", rewritten(lambda said: said), "canonical"),
    ("another order", rewritten(lambda said: dict(reversed(said.items()))), "canonical"),
    ("a field more", rewritten(lambda said: plain({**said, "userHandle": ""})), "no other"),
    ("a field less", rewritten(lambda said: plain({"id": said["id"]})), "no other"),
    ("a number", rewritten(lambda said: plain({**said, "id": 5})), "are texts"),
    ("padding", rewritten(lambda said: plain({**said, "signature": said["signature"] + "="})), "base64"),
    ("letters that base64 skips", rewritten(lambda said: plain({**said, "signature": said["signature"] + "!"})),
     "base64"),
    ("a list", rewritten(lambda said: b"[]"), "not an object"),
    ("nothing", rewritten(lambda said: b""), "at most"),
    ("too much", rewritten(lambda said: b" " * 40_000), "at most"),
    ("a field twice", rewritten(lambda said: plain(said)[:-1] + b',"id":""}'), "twice"),
]  # fmt: skip


@each("name, make, why", REFUSED, ids=[row[0] for row in REFUSED])
def test_it_is_refused(name: str, make: Callable[[], Proof], why: str) -> None:
    verify(ONE.public, CHALLENGE, ONE.sign(CHALLENGE))
    with pytest.raises(ProofRefused, match=why):
        verify(ONE.public, CHALLENGE, make())


def test_a_copied_authenticator_is_seen() -> None:
    proof = ONE.sign(CHALLENGE)
    for last in (7, 8, 2**32 - 1):
        with pytest.raises(ProofRefused, match="did not increase"):
            verify(ONE.public, CHALLENGE, proof, last_count=last)
    silent = replace(ONE, count=0)
    assert verify(ONE.public, CHALLENGE, silent.sign(CHALLENGE), last_count=0).count == 0
    with pytest.raises(ProofRefused, match="did not increase"):
        verify(ONE.public, CHALLENGE, silent.sign(CHALLENGE), last_count=1)


def test_the_site_is_that_of_the_key() -> None:
    """Who owns the web server cannot say that another site is the right one: the key's text does."""
    public = ONE.public
    text = json.loads(public.data)
    moved = msgspec.structs.replace(public, data=plain({**text, "rp": "evil.example"}).decode())
    proof = Proof("passkey", public.id, of_fields(replace(ONE, rp="evil.example").fields(CHALLENGE)))
    with pytest.raises(ProofRefused, match="not that of its id"):
        verify(moved, CHALLENGE, proof)


def asked(site: Site = SITE) -> Asked:
    return Asked(CHALLENGE, site)


def attested(**words: Any) -> Callable[[], str]:
    return lambda: replace(ONE, **words).registration(CHALLENGE)


def keyed(key: Any) -> Callable[[], str]:
    class Says(PasskeySigner):
        cose = property(lambda _: cbor2.dumps(key))

    return lambda: Says("ES256").registration(CHALLENGE)


def of_form(fmt: str) -> Callable[[], str]:
    return lambda: ONE.registration(CHALLENGE, fmt=fmt)


NOT_ENROLLED: list[tuple[str, Callable[[], str], str]] = [
    ("another challenge", lambda: ONE.registration(OTHER), "something else"),
    ("another origin", attested(origin="https://evil.example"), "another origin"),
    ("another site", attested(rp="evil.example"), "another site"),
    ("in a frame", attested(more={"crossOrigin": True}), "frame"),
    ("nobody verified", attested(flags=1), "did not verify|cannot be read"),
    ("bytes after it", attested(tail=b"\0"), "cannot be read"),
    ("an assertion", lambda: ONE.answer(CHALLENGE), "are texts"),
    ("a maker's word", of_form("fido-u2f"), "attestation of its maker"),
    ("junk", lambda: "junk", "strict JSON"),
    ("nothing", lambda: "{}", "no response"),
    ("a list", lambda: "[]", "not an object"),
    ("deep", lambda: "[" * 5_000, "strict JSON"),
    ("a small key of RSA", keyed({1: 3, 3: -257, -1: b"\x80" + b"\1" * 127, -2: b"\1\0\1"}), "2048 to 8192"),
    ("an exponent of 3", keyed({1: 3, 3: -257, -1: b"\x80" + b"\1" * 255, -2: b"\3"}), "exponent"),
    ("SHA-1 by RSA", keyed({1: 3, 3: -65535, -1: b"\x80" + b"\1" * 255, -2: b"\1\0\1"}), "cannot be read|signs by"),
    ("a point for which anybody signs", keyed({1: 1, 3: -8, -1: 6, -2: bytes(32)}), "anyone could sign"),
    ("a point that is none", keyed({1: 2, 3: -7, -1: 1, -2: b"x" * 32, -3: b"y" * 32}), "cannot be read"),
    ("a point of another curve", keyed({1: 2, 3: -7, -1: 2, -2: b"x" * 48, -3: b"y" * 48}), "cannot be read|signs by"),
    ("an algorithm of another kind", keyed({1: 1, 3: -7, -1: 6, -2: b"\5" * 32}), "cannot be read|signs by"),
    ("a key that is no key", keyed([1, 2]), "cannot be read"),
]


@each("name, make, why", NOT_ENROLLED, ids=[row[0] for row in NOT_ENROLLED])
def test_it_is_not_enrolled(name: str, make: Callable[[], str], why: str) -> None:
    with pytest.raises(ProofRefused, match=why):
        scheme("passkey").enrol(make(), asked=asked())


@each("kind", PASSKEY_KINDS)
def test_a_new_key_may_sign_for_itself(kind: str) -> None:
    signer = PasskeySigner(kind)
    enrolled = scheme("passkey").enrol(signer.registration(CHALLENGE, fmt="packed"), label="phone", asked=asked())
    assert enrolled == signer.public
    wrong = json.loads(signer.registration(CHALLENGE, fmt="packed"))
    wrong["response"]["attestationObject"] = json.loads(PasskeySigner(kind, 1).registration(CHALLENGE, fmt="packed"))[
        "response"
    ]["attestationObject"]
    with pytest.raises(ProofRefused):
        scheme("passkey").enrol(json.dumps(wrong), asked=asked())


def test_what_the_page_is_told() -> None:
    created = json.loads(registration_options(SITE, CHALLENGE, "ada", b"u" * 16, known=[ONE.public]))
    assert created["challenge"] == b64u(CHALLENGE)
    assert (created["rp"]["id"], created["attestation"]) == ("localhost", "none")
    assert created["authenticatorSelection"]["userVerification"] == "required"
    assert [one["id"] for one in created["excludeCredentials"]] == [b64u(ONE.credential)]
    assert [one["alg"] for one in created["pubKeyCredParams"]] == [-8, -7, -257]
    wanted = json.loads(assertion_options(CHALLENGE, [ONE.public, TWO.public]))
    assert (wanted["challenge"], wanted["rpId"]) == (b64u(CHALLENGE), "localhost")
    assert wanted["userVerification"] == "required"
    assert [one["id"] for one in wanted["allowCredentials"]] == [b64u(ONE.credential), b64u(TWO.credential)]


def test_keys_of_no_site_or_of_two_are_not_asked() -> None:
    other = Site("example.com", ("https://example.com",))
    foreign = replace(ONE, rp="example.com", origin="https://example.com")
    public = scheme("passkey").enrol(foreign.registration(CHALLENGE), asked=asked(other))
    for keys in ([], [ONE.public, public]):
        with pytest.raises(UserError, match="of one site"):
            assertion_options(CHALLENGE, keys)
    with pytest.raises(UserError, match="asked="):
        scheme("passkey").enrol("{}")


@each(
    "rp, origins",
    [
        ("127.0.0.1", ("http://127.0.0.1",)),
        ("", ("https://x",)),
        ("Example.com", ("https://example.com",)),
        ("https://example.com", ("https://example.com",)),
        ("example.com", ()),
        ("example.com", "https://example.com"),
        ("example.com", ["https://example.com"]),
        ("example.com", ("https://evil.com",)),
        ("example.com", ("https://evilexample.com",)),
        ("example.com", ("http://example.com",)),
        ("example.com", ("https://example.com/",)),
        ("example.com", ("https://example.com:443",)),
        ("example.com", ("https://example.com:99999",)),
        ("example.com", ("https://a@example.com",)),
        ("example.com", (5,)),
        (5, ("https://example.com",)),
    ],
)
def test_what_is_no_site_is_refused(rp: Any, origins: Any) -> None:
    with pytest.raises(UserError):
        Site(rp, origins)


def test_sites_that_browsers_take() -> None:
    assert Site("example.com", ("https://example.com", "https://inbox.example.com:8443")).rp == "example.com"
    assert Site("kt.localhost", ("http://kt.localhost:8177",)).rp == "kt.localhost"


def test_a_key_is_parsed_once_however_often_strangers_have_it_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [PasskeySigner("ES256", number).public for number in (101, 102)]
    parsed: list[Any] = []
    written = passkey._written
    monkeypatch.setattr(passkey, "_written", lambda text: parsed.append(text) or written(text))
    stranger = PasskeySigner("ES256", 103).answer(CHALLENGE)
    for _ in range(3):
        with pytest.raises(ProofRefused, match="not enrolled"):
            proof_of(stranger, keys)
    assert len(parsed) <= len(keys)
