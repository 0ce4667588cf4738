"""SSH signatures: what ssh-keygen makes is verified, what we make ssh-keygen verifies, and nothing else passes."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from keyturn import Proof, ProofRefused, UserError
from keyturn.proofs import scheme, verify
from keyturn.proofs.base import Asked
from keyturn.proofs.ssh_signing import sign_with_ssh
from tests.needs import missing
from tests.table import each
from trials.signers import SITE, SSH_KINDS, SSHSigner, armored, dearmored, mpint, packed

CHALLENGE = hashlib.sha256(b"what ada said").digest()
OTHER = hashlib.sha256(b"what ada did not say").digest()
needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason=missing("ssh-keygen"))
ED = SSHSigner("ssh-ed25519")
SK = SSHSigner("sk-ssh-ed25519@openssh.com")


def keygen(*words: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ssh-keygen", *map(str, words)], input=given, capture_output=True, timeout=30, check=False)


def new_key(folder: Path, kind: str, *more: str, passphrase: str = "") -> Path:
    path = folder / f"{kind}{''.join(more)}"
    assert keygen("-q", "-t", kind, *more, "-N", passphrase, "-C", "ada@home", "-f", path).returncode == 0
    return path


@needs_ssh
@each("words", [("ed25519",), ("ecdsa", "-b", "256"), ("rsa", "-b", "2048")])
def test_what_ssh_keygen_signs_is_verified(words: tuple[str, ...], tmp_path_factory: Any) -> None:
    path = new_key(tmp_path_factory.mktemp("keys"), *words)
    public = scheme("ssh").enrol(path.with_suffix(".pub").read_text())
    assert public.label == "ada@home"
    assert public.id in keygen("-l", "-f", path).stdout.decode()
    proof = sign_with_ssh(CHALLENGE, path)
    assert proof.key == public.id
    assert verify(public, CHALLENGE, proof).count is None
    with pytest.raises(ProofRefused, match="on the decision"):
        verify(public, OTHER, proof)


@needs_ssh
@each("kind", SSH_KINDS)
def test_what_we_take_ssh_keygen_takes(kind: str, tmp_path_factory: Any) -> None:
    """The software keys of these tests, and so what is refused of them, are ones that OpenSSH knows."""
    folder = tmp_path_factory.mktemp("signed")
    signer = SSHSigner(kind)
    (folder / "allowed").write_text(f'ada namespaces="keyturn" {signer.line}\n')
    proof = signer.sign(CHALLENGE)
    (folder / "sig").write_bytes(proof.data)
    words = ("-Y", "verify", "-f", folder / "allowed", "-I", "ada", "-n", "keyturn", "-s", folder / "sig")
    assert keygen(*words, given=CHALLENGE).returncode == 0
    assert keygen(*words, given=OTHER).returncode != 0
    checked = verify(signer.public, CHALLENGE, proof)
    assert (checked.count, checked.present) == ((7, True) if kind.startswith("sk-") else (None, False))


@needs_ssh
def test_an_agent_signs_by_the_public_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_key(tmp_path, "ed25519")
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", path], check=True, timeout=30)
        path.unlink()
        public_half = path.with_suffix(".pub")
        proof = sign_with_ssh(CHALLENGE, public_half)
        verify(scheme("ssh").enrol(public_half.read_text()), CHALLENGE, proof)
    finally:
        agent.terminate()
        agent.wait(10)


@needs_ssh
def test_what_cannot_sign_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="there is no ssh key"):
        sign_with_ssh(CHALLENGE, tmp_path / "none")
    with pytest.raises(UserError, match="32 bytes"):
        sign_with_ssh(b"short", tmp_path / "none")
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(UserError, match="could not sign"):
        sign_with_ssh(CHALLENGE, tmp_path / "junk")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="needs ssh-keygen"):
        sign_with_ssh(CHALLENGE, tmp_path / "junk")


@needs_ssh
def test_a_key_path_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_key(tmp_path, "ed25519").rename("-oops")
    assert sign_with_ssh(CHALLENGE, "-oops").scheme == "ssh"


def as_proof(signer: SSHSigner, body: bytes) -> Proof:
    return Proof("ssh", signer.public.id, armored(body))


def inner(signer: SSHSigner, make: Callable[[bytes], bytes]) -> Proof:
    """A signature whose innermost part is made of the true one."""
    return as_proof(signer, signer.body(CHALLENGE, make(signer.inner(CHALLENGE))))


P256 = SSHSigner("ecdsa-sha2-nistp256")
RSA = SSHSigner("ssh-rsa")


def of_another_key() -> Proof:
    return Proof("ssh", ED.public.id, replace(ED, number=1).sign(CHALLENGE).data)


def the_blob_of_ours_and_the_signature_of_another() -> Proof:
    return as_proof(ED, ED.body(CHALLENGE, replace(ED, number=1).inner(CHALLENGE)))


# Made by the key itself, and none of them a word on the decision.
REFUSED: list[tuple[str, SSHSigner, Callable[[], Proof], str]] = [
    ("another namespace", ED, lambda: replace(ED, namespace=b"git").sign(CHALLENGE), "another namespace"),
    ("no namespace", ED, lambda: replace(ED, namespace=b"").sign(CHALLENGE), "another namespace"),
    ("a longer namespace", ED, lambda: replace(ED, namespace=b"keyturn\0").sign(CHALLENGE), "another namespace"),
    ("reserved bytes", ED, lambda: replace(ED, reserved=b"x").sign(CHALLENGE), "neither sha512 nor sha256"),
    ("sha1 as the hash", ED, lambda: replace(ED, hashed=b"sha1").sign(CHALLENGE), "neither sha512 nor sha256"),
    ("sha384 as the hash", ED, lambda: replace(ED, hashed=b"sha384").sign(CHALLENGE), "neither sha512 nor sha256"),
    ("version 2", ED, lambda: replace(ED, version=2).sign(CHALLENGE), "version 1"),
    ("other magic", ED, lambda: replace(ED, magic=b"SSHSIH").sign(CHALLENGE), "version 1"),
    ("bytes after it", ED, lambda: replace(ED, tail=b"\0").sign(CHALLENGE), "follows its end"),
    ("bytes after the inner one", ED, lambda: inner(ED, lambda one: one + b"\0"), "follows its end"),
    ("SHA-1 by RSA", RSA, lambda: replace(RSA, algorithm=b"ssh-rsa").sign(CHALLENGE), "SHA-1"),
    ("an algorithm of another kind", ED, lambda: replace(ED, algorithm=b"rsa-sha2-512").sign(CHALLENGE), "algorithm"),
    ("RSA-512 said, 256 made", RSA, lambda: inner(RSA, lambda one: one.replace(b"512", b"256")), "on the decision"),
    ("another key", ED, of_another_key, "another key made it"),
    ("another key's signature", ED, the_blob_of_ours_and_the_signature_of_another, "on the decision"),
    ("a key not touched", SK, lambda: replace(SK, flags=0).sign(CHALLENGE), "was not touched"),
    ("a key that verified and was not touched", SK, lambda: replace(SK, flags=4).sign(CHALLENGE), "was not touched"),
    ("of another application", SK, lambda: Proof("ssh", SK.public.id, replace(SK, application=b"ssh:x").sign(
        CHALLENGE).data), "another key"),
    ("a touch that was put in", SK, lambda: inner(replace(SK, flags=0), lambda one: one[:-5] + b"\x01" + one[-4:]),
     "on the decision"),
    ("a count that was put in", SK, lambda: inner(SK, lambda one: one[:-1] + b"\xff"), "on the decision"),
    ("no count", SK, lambda: inner(SK, lambda one: one[:-5]), "cut short|follows its end"),
    ("on something else", ED, lambda: ED.sign(OTHER), "on the decision"),
    ("the digest and not the challenge", ED, lambda: ED.sign(hashlib.sha256(CHALLENGE).digest()), "on the decision"),
]  # fmt: skip


@each("name, signer, make, why", REFUSED, ids=[row[0] for row in REFUSED])
def test_it_is_refused(name: str, signer: SSHSigner, make: Callable[[], Proof], why: str) -> None:
    verify(signer.public, CHALLENGE, signer.sign(CHALLENGE))
    with pytest.raises(ProofRefused, match=why):
        verify(signer.public, CHALLENGE, make())


ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def ecdsa(r: bytes, s: bytes) -> Proof:
    return as_proof(P256, P256.body(CHALLENGE, packed(b"ecdsa-sha2-nistp256", r + s)))


def test_numbers_are_written_in_one_way() -> None:
    body = P256.inner(CHALLENGE)[4 + 19 + 4 :]
    size = int.from_bytes(body[:4], "big")
    r, s = body[4 : 4 + size], body[8 + size :]
    verify(P256.public, CHALLENGE, ecdsa(packed(r), packed(s)))
    for wrong in (b"\0" + r if r[0] < 0x80 and r[0] else b"\0\0" + r, b"", b"\0", b"\xff" + r):
        with pytest.raises(ProofRefused, match="not written as numbers"):
            verify(P256.public, CHALLENGE, ecdsa(packed(wrong), packed(s)))
    beyond = mpint(int.from_bytes(r, "big") + ORDER)
    with pytest.raises(ProofRefused):
        verify(P256.public, CHALLENGE, ecdsa(beyond, packed(s)))


def test_the_twin_of_an_ecdsa_signature_says_nothing_else() -> None:
    """(r, n - s) is as good as (r, s), for ssh-keygen and for browsers too: whoever has one can write the other."""
    inner_one = P256.inner(CHALLENGE)[4 + 19 + 4 :]
    size = int.from_bytes(inner_one[:4], "big")
    s = int.from_bytes(inner_one[8 + size :], "big")
    twin = ecdsa(inner_one[: 4 + size], mpint(ORDER - s))
    verify(P256.public, CHALLENGE, twin)
    with pytest.raises(ProofRefused, match="on the decision"):
        verify(P256.public, OTHER, twin)


def test_an_ed25519_signature_has_no_twin() -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    body = dearmored(ED.sign(CHALLENGE).data)
    twin = body[:-32] + (int.from_bytes(body[-32:], "little") + order).to_bytes(32, "little")
    with pytest.raises(ProofRefused, match="on the decision"):
        verify(ED.public, CHALLENGE, as_proof(ED, twin))


def test_a_security_key_must_count_on() -> None:
    proof = SK.sign(CHALLENGE)
    assert verify(SK.public, CHALLENGE, proof, last_count=6).count == 7
    for last in (7, 8):
        with pytest.raises(ProofRefused, match="did not increase"):
            verify(SK.public, CHALLENGE, proof, last_count=last)
    silent = replace(SK, count=0)
    assert verify(SK.public, CHALLENGE, silent.sign(CHALLENGE), last_count=0).count == 0
    with pytest.raises(ProofRefused, match="did not increase"):
        verify(SK.public, CHALLENGE, silent.sign(CHALLENGE), last_count=1)


def test_a_pin_is_told_from_a_touch() -> None:
    assert verify(SK.public, CHALLENGE, SK.sign(CHALLENGE)).verified
    assert not verify(SK.public, CHALLENGE, replace(SK, flags=1).sign(CHALLENGE)).verified


@each(
    "change",
    [
        lambda text: text.replace(b"\n", b"", 1),
        lambda text: b" " + text,
        lambda text: text + b"x",
        lambda text: text + text,
        lambda text: text.replace(b"BEGIN SSH", b"BEGIN PGP"),
        lambda text: text.replace(b"\n-----END", b"=\n-----END"),
        lambda text: text[:60] + b"*" + text[61:],
        lambda text: text[:60] + b"\n\n" + text[60:],
        lambda text: text[: len(text) // 2],
        lambda text: b"",
        lambda text: text.decode().encode("utf-16"),
    ],
)
def test_another_armor_is_refused(change: Callable[[bytes], bytes]) -> None:
    proof = replace(ED, namespace=b"keyturn").sign(CHALLENGE)
    with pytest.raises(ProofRefused):
        verify(ED.public, CHALLENGE, Proof("ssh", proof.key, change(proof.data)))


def test_armor_of_windows_and_of_other_widths_is_taken() -> None:
    proof = ED.sign(CHALLENGE)
    body = base64.b64encode(dearmored(proof.data))
    wide = b"-----BEGIN SSH SIGNATURE-----\n" + body[:76] + b"\n" + body[76:152] + b"\n" + body[152:228] + b"\n"
    rest = body[228:] + b"\n" if body[228:] else b""
    for data in (proof.data.replace(b"\n", b"\r\n"), wide + rest + b"-----END SSH SIGNATURE-----"):
        verify(ED.public, CHALLENGE, Proof("ssh", proof.key, data))


def line_of(blob: bytes, kind: str = "ssh-ed25519") -> str:
    return f"{kind} {base64.b64encode(blob).decode()}"


def rsa_line(bits: int, exponent: int = 65537) -> str:
    return line_of(packed(b"ssh-rsa") + mpint(exponent) + mpint((1 << bits - 1) | 1), "ssh-rsa")


SMALL = ("00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "ed" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f",
         "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
         "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
         "01" + "00" * 30 + "80", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85")  # fmt: skip


@each("point", SMALL)
def test_a_key_for_which_anybody_signs_is_refused(point: str) -> None:
    with pytest.raises(ProofRefused, match="anyone could sign"):
        scheme("ssh").enrol(line_of(packed(b"ssh-ed25519", bytes.fromhex(point))))


@each(
    "given, why",
    [
        ("", "one line"),
        ("ssh-ed25519", "one line"),
        ("ssh-ed25519 AAAA", "cut short"),
        ("ssh-ed25519 AA AA", "not base64"),
        (ED.line + "\n" + ED.line, "one line"),
        ('command="x" ' + ED.line, "begins with that"),
        (line_of(ED.blob, "ssh-rsa"), "is another kind"),
        (line_of(ED.blob + b"\0"), "follows its end"),
        (line_of(ED.blob[:-1]), "cut short"),
        (line_of(packed(b"ssh-ed25519", b"x" * 31)), "32 bytes"),
        (line_of(packed(b"ssh-dss", b"x"), "ssh-dss"), "one of the types"),
        ("ssh-ed25519-cert-v01@openssh.com AAAA", "one of the types"),
        (line_of(packed(b"ecdsa-sha2-nistp256", b"nistp384", b"\4" + b"x" * 64), "ecdsa-sha2-nistp256"), "nistp256"),
        (line_of(packed(b"ecdsa-sha2-nistp256", b"nistp256", b"\4" + b"x" * 64), "ecdsa-sha2-nistp256"), "be read"),
        (line_of(packed(b"ecdsa-sha2-nistp256", b"nistp256", b"\0"), "ecdsa-sha2-nistp256"), "in full"),
        (rsa_line(1024), "2048 to 8192 bits"),
        (rsa_line(16384), "one line|2048 to 8192"),
        (rsa_line(2048, 3), "exponent"),
        (rsa_line(2048, 1), "be read|exponent"),
        ("x" * 20_000, "one line"),
        (5, "one line"),
    ],
)
def test_what_is_no_key_is_not_enrolled(given: Any, why: str) -> None:
    with pytest.raises(ProofRefused, match=why):
        scheme("ssh").enrol(given)


def test_a_private_key_is_refused_without_repeating_it(tmp_path: Path) -> None:
    private = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
    with pytest.raises(ProofRefused) as refused:
        scheme("ssh").enrol(private)
    assert "b3Blb" not in str(refused.value)


def test_a_label_is_one_line() -> None:
    assert scheme("ssh").enrol(ED.line, label="laptop").label == "laptop"
    for label in ("a\nb", "x" * 201, "a\u202eb", 5):
        with pytest.raises(UserError, match="label"):
            scheme("ssh").enrol(ED.line, label=label)
    with pytest.raises(UserError, match="asked="):
        scheme("ssh").enrol(ED.line, asked=Asked(CHALLENGE, SITE))


def test_the_caller_is_told_what_is_wrong_with_the_call() -> None:
    proof = ED.sign(CHALLENGE)
    for challenge in (b"", CHALLENGE.hex(), CHALLENGE + b"x"):
        with pytest.raises(UserError, match="32 bytes"):
            verify(ED.public, challenge, proof)
    for count in (-1, True, "7"):
        with pytest.raises(UserError, match="last_count"):
            verify(ED.public, CHALLENGE, proof, last_count=count)


def test_nothing_of_the_key_may_be_altered() -> None:
    proof = ED.sign(CHALLENGE)
    other = replace(ED, number=1).public
    for key in (
        replace_key(ED.public, data=other.data),
        replace_key(ED.public, id=other.id),
        replace_key(ED.public, scheme="passkey"),
        replace_key(ED.public, data=""),
    ):
        with pytest.raises(ProofRefused):
            verify(key, CHALLENGE, proof)


def replace_key(public: Any, **words: str) -> Any:
    return msgspec.structs.replace(public, **words)
