"""What tests of whatever runs commands share."""

from __future__ import annotations

import os
import time

import pytest


@pytest.fixture
def marker() -> str:
    """A number of seconds that nobody else on this machine sleeps."""
    return f"{900 + os.getpid() % 1000}.{time.monotonic_ns() % 10**9:09d}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Play the suite of tools in a sandbox plain: streamed it is a trial, and played without a sandbox."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if "TestShellToolInASandbox" in item.nodeid and given.get("way") == "streamed":
            item.add_marker(pytest.mark.trial)
