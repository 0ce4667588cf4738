"""The key that signs checkpoints: kept from others, followed by new ones, and never followed by a forger's."""

from __future__ import annotations

import os
import stat
import subprocess
from base64 import b64encode
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from keyturn import UserError
from keyturn.audit.evidence.public_keys import KeyStatement, PublicKeys, signed_pair
from keyturn.audit.evidence.signing import Signer
from keyturn.audit.service import Audit
from tests.audit.records import desk, rows_of

HOUR = 3_600_000


def raw_of(signer: Signer) -> bytes:
    return signer._private.public_key().public_bytes_raw()


def test_the_file_is_made_for_its_owner_alone_and_refused_once_others_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "audit"
    signer = Signer.of(path, 5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Signer.of(path, 6).name == signer.name
    path.chmod(0o640)
    with pytest.raises(UserError, match="others can read or write"):
        Signer.of(path, 7)
    path.chmod(0o600)
    path.parent.chmod(0o777)
    with pytest.raises(UserError, match="others can write in"):
        Signer.of(path, 7)


def test_a_link_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    Signer.of(path, 5)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UserError, match="symbolic link"):
        Signer.of(tmp_path / "link", 5)
    text = path.read_text()
    for damaged in ("", "nonsense", text[:40], text.replace("A", "B", 3), text.partition("-----END")[0]):
        path.write_text(damaged)
        with pytest.raises(UserError, match="damaged"):
            Signer.of(path, 5)
    other = tmp_path / "other"
    Signer.of(other, 5)
    mixed = text.partition("{")[0] + "{" + other.read_text().partition("{")[2]
    path.write_text(mixed)
    with pytest.raises(UserError, match="not that of its private key"):
        Signer.of(path, 5)


def test_a_rotation_is_trusted_by_who_trusts_the_key_before_it(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    first = Signer.of(path, 5)
    second = first.rotated(path, 10)
    third = second.rotated(path, 20)
    assert third.public.names() == [first.name, second.name, third.name]
    for known in (first.public, second.public):
        keys = known.copy()
        assert keys.add(third.public.text.splitlines()) == ""
        assert keys.newest == third.name
        assert keys.verify(first.name, b"old", first.sign(b"old"))
    stranger = Signer.of(tmp_path / "stranger", 5)
    keys = stranger.public.copy()
    assert keys.add(third.public.text.splitlines()) == ""
    assert keys.names() == [stranger.name]


def test_a_forged_rotation_is_refused(tmp_path: Path) -> None:
    first = Signer.of(tmp_path / "audit", 5)
    forger = Signer.of(tmp_path / "forger", 5)
    raw = raw_of(forger)
    statement = KeyStatement(forger.name, b64encode(raw).decode(), 10, first.name)
    pair = signed_pair(statement, forger.sign).splitlines()
    assert "is not that of key" in first.public.copy().add(pair)
    wrong = KeyStatement(first.name, b64encode(raw).decode(), 10)
    assert "whose id that is" in first.public.copy().add(signed_pair(wrong, forger.sign).splitlines())
    assert "form that cannot be read" in first.public.copy().add(["{}", "{}"])
    genuine = first.rotated(tmp_path / "audit", 10)
    second_follower = signed_pair(statement, first.sign).splitlines()
    assert "two keys" in genuine.public.copy().add(second_follower)
    with pytest.raises(UserError, match="damaged"):
        PublicKeys.read("\n".join([*first.public.text.splitlines(), *pair]) + "\n")


async def test_a_checkpoint_of_a_newer_key_verifies_with_the_older_one_and_a_forgers_never(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    public = here.public
    kept = tmp_path / "kept"
    kept.write_bytes(public.read_bytes())
    signer = Signer.existing(here.key)
    old = await here.audit.checkpoint(tmp_path / "old.jsonl")
    signer.rotated(here.key, (old.statement.at if old.statement else 0) + 1)
    await here.audit.checkpoint(tmp_path / "new.jsonl")
    for name in ("old.jsonl", "new.jsonl"):  # H11
        assert Audit.verify_file(tmp_path / name, public=kept).complete
        assert Audit.verify_file(tmp_path / name, public=here.public).complete
    forger = Signer.of(tmp_path / "forger", 5)
    await Audit(here.store, key=tmp_path / "forger").checkpoint(tmp_path / "forged.jsonl")
    (tmp_path / "theirs").write_text(forger.public.text)
    assert Audit.verify_file(tmp_path / "forged.jsonl", public=tmp_path / "theirs").complete
    assert not Audit.verify_file(tmp_path / "forged.jsonl", public=kept).ok


async def test_a_replaced_key_signs_nothing_more(tmp_path: Path) -> None:
    """A stolen old key makes no checkpoint of a time after its follower began."""
    here = await desk(tmp_path)
    stolen = tmp_path / "stolen"
    Signer.of(here.key, 5)
    stolen.write_bytes(here.key.read_bytes())
    stolen.chmod(0o600)
    Signer.existing(here.key).rotated(here.key, 10)
    await Audit(here.store, key=stolen).checkpoint(tmp_path / "late.jsonl")
    report = here.verified(rows_of(tmp_path / "late.jsonl"))
    assert [fault.kind for fault in report.faults] == ["signature"]
    assert "had been replaced" in report.faults[0].what


def test_a_public_key_as_a_pem_is_trusted_and_other_kinds_are_refused(tmp_path: Path) -> None:
    signer = Signer.of(tmp_path / "audit", 5)
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    def pem(key: Any) -> str:
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    assert PublicKeys.read(pem(signer._private.public_key())).names() == [signer.name]
    with pytest.raises(UserError, match="no Ed25519"):
        PublicKeys.read(pem(generate_private_key(SECP256R1()).public_key()))
    with pytest.raises(UserError, match="damaged"):
        PublicKeys.read("-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----\n")


@pytest.mark.skipif(which("openssl") is None, reason="no openssl")
async def test_openssl_verifies_the_signature_as_the_manual_says(tmp_path: Path) -> None:
    here = await desk(tmp_path)
    await here.audit.checkpoint(tmp_path / "checkpoint.jsonl")
    (tmp_path / "key.pem").write_text(here.key.read_text().partition("{")[0])
    script = """
    openssl pkey -in key.pem -pubout -out public.pem
    tail -n 2 checkpoint.jsonl | head -n 1 | tr -d '\\n' > statement
    tail -n 1 checkpoint.jsonl | sed 's/.*"signature":"\\([^"]*\\)","keys".*/\\1/' | base64 -d > signature
    openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in statement -sigfile signature
    test "$(sed 1d checkpoint.jsonl | head -n -2 | sha256sum | cut -c1-64)" = \
      "$(sed 's/.*"heads":"\\([0-9a-f]*\\)".*/\\1/' statement)"
    """
    done = subprocess.run(
        ["sh", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verified Successfully" in done.stdout
