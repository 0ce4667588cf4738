"""What every attack on what is kept needs: a process that knows nothing of its runs but what their store says."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A state directory of this test's own, and a process that remembers nothing."""
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
