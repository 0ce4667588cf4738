"""Forged and moved signatures, short: `make signatures` plays many more."""

from __future__ import annotations

import pytest

from keyturn import Proof
from keyturn.proofs.base import Checked, PublicKey
from trials import signatures
from trials.signature_kinds import WAYS


@pytest.mark.trial
def test_200_of_200_forged_or_moved_signatures_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert signatures.main(["--n", "200", "--seed", "7"]) == 0
    assert "200 of 200 forged or moved signatures refused" in capsys.readouterr().out
    assert len(WAYS) > 20


def test_one_that_passes_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def takes(public: PublicKey, challenge: bytes, proof: Proof, *, last_count: int | None = None) -> Checked:
        return Checked()

    monkeypatch.setattr(signatures, "verify", takes)
    assert signatures.main(["--n", "1", "--seed", "7"]) == 1
    said = capsys.readouterr()
    assert "0 of 1" in said.out
    assert "accepted: " in said.err
