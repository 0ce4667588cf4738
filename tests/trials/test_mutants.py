"""Builds that are broken on purpose are caught, every one, and the build as it is passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trials.alteration import Edit, Stale
from trials.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(260)
def test_every_mutant_is_caught() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trials.mutants"], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(MUTANTS)} of {len(MUTANTS)} mutants caught; the build as it is passes." in done.stdout


def test_each_law_of_the_gate_has_a_mutant() -> None:
    laws = {mutant.law.split()[0] for mutant in MUTANTS}
    assert laws == {f"I{number}" for number in range(1, 9)}
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def double(number: int) -> int:
    return number * 2


def test_an_alteration_that_no_longer_fits_is_said() -> None:
    with pytest.raises(Stale, match="0 times"):
        Edit(double, "number * 3", "number").apply()
    Edit(double, "number * 2", "number * factor", {"factor": 3}).apply()
    assert double(2) == 6
