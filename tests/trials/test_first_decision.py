"""The trial of the first decision, short: nothing is installed; all else is done as the README says, and removed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.needs import missing
from tests.server.browsing import chromium
from trials.first_decision import ROOT, Stopwatch, measure


@pytest.mark.trial  # the demo's links and what they open are tests of their own
@pytest.mark.timeout(400)
def test_a_clone_leads_to_a_decision_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if chromium() is None:
        pytest.skip(missing("chromium"))
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip(missing("git"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parts, said = measure(sys.executable)
    assert said.startswith("Approved by ada")
    assert len(parts) == 6
    assert list(tmp_path.iterdir()) == []


def test_a_readers_commands_are_those_that_the_trial_says() -> None:
    told = (ROOT / "README.md").read_text(encoding="utf-8").partition("## From a clone")[2]
    assert "make demo " in told
    assert "two sign-in links; open them, and decide" in told


def test_a_stopwatch_adds_its_parts_up() -> None:
    watch = Stopwatch()
    watch.lap("one")
    watch.lap("two")
    assert [part.what for part in watch.parts] == ["one", "two"]
    assert watch.total == sum(part.seconds for part in watch.parts)
