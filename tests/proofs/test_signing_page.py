"""The page on signing is true: its commands run, and what they sign and check is what Keyturn takes."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from keyturn import Proof
from keyturn.proofs import scheme, verify
from tests.needs import missing

PAGE = Path(__file__).resolve().parents[2] / "docs" / "signing.md"
ABSENT = next((name for name in ("ssh-keygen", "openssl", "bash") if shutil.which(name) is None), None)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def played(*commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The commands of the page in a folder: what they print, and how they end."""
    words = ["bash", "-euo", "pipefail", "-c", "\n".join(commands)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.skipif(ABSENT is not None, reason=missing(ABSENT or "ssh-keygen"))
def test_an_auditor_checks_with_tools_that_are_not_ours(tmp_path: Path) -> None:
    signs, checks = blocks("sh")
    assert played(signs, folder=tmp_path).returncode == 0
    checked = played(checks, folder=tmp_path)
    assert checked.returncode == 0
    assert checked.stdout.startswith('Good "keyturn" signature for ada')

    text = (tmp_path / "said.json").read_bytes()
    assert text.decode() == blocks("text")[0].split("\n")[0], "the text that is signed is the one the page prints"
    key = scheme("ssh").enrol((tmp_path / "ada.pub").read_text())
    proof = Proof("ssh", key.id, (tmp_path / "said.sig").read_bytes())
    verify(key, hashlib.sha256(text).digest(), proof)

    (tmp_path / "said.json").write_bytes(text.replace(b"approve", b"reject"))
    assert played(checks, folder=tmp_path).returncode != 0
