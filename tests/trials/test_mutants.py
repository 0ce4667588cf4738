"""Builds that are broken on purpose are caught, and the build as it is passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import forked
from trials.alteration import Edit, Stale
from trials.explore.broken import SHOWN
from trials.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(600)
def test_a_mutant_of_each_law_is_caught() -> None:
    command = ["-m", "trials.mutants", "--few"]
    done = forked.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, preload=["trials.mutants"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 of 8 mutants caught; the build as it is passes." in done.stdout


@pytest.mark.trial
@pytest.mark.timeout(900)
def test_every_mutant_is_caught() -> None:
    command = ["-m", "trials.mutants"]
    done = forked.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, preload=["trials.mutants"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(MUTANTS)} of {len(MUTANTS)} mutants caught; the build as it is passes." in done.stdout


def test_each_law_of_the_gate_has_a_mutant() -> None:
    laws = {mutant.law.split()[0] for mutant in MUTANTS}
    assert laws == {f"I{number}" for number in range(1, 9)}
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_each_mutant_fits_the_source_as_it_is() -> None:
    """One that does not is caught by nothing, and only the trials at length would tell."""
    stale: list[str] = []
    for mutant in (*MUTANTS, *(each.mutant for each in SHOWN)):
        sources: dict[Any, str] = {}
        try:
            for edit in mutant.alterations:
                if isinstance(edit, Edit):
                    edit.altered(sources)
        except Stale as error:
            stale.append(f"{mutant.name}: {error}")
    assert not stale, "\n".join(stale)


def double(number: int) -> int:
    return number * 2


def test_an_alteration_that_no_longer_fits_is_said() -> None:
    with pytest.raises(Stale, match="0 times"):
        Edit(double, "number * 3", "number").apply()
    Edit(double, "number * 2", "number * factor", {"factor": 3}).apply()
    assert double(2) == 6
