"""Every test here runs under a key of its own, and no letter has to wait for quiet."""

from __future__ import annotations

import pytest
from textual import _wait

from keyturn.screens.quiet import Quiet


@pytest.fixture(autouse=True)
def _keyed(own_key: None) -> None:
    """Use a key of the test's own."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, css_is_parsed_once: None) -> None:
    """Take a letter at once: what the wait is for has a test of its own. And look more often whether all is quiet."""
    monkeypatch.setattr(Quiet, "grace", 0.0)
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 0.005)
    monkeypatch.setattr(_wait, "SLEEP_IDLE", 0.0005)
