"""What tests of whatever runs commands share."""

from __future__ import annotations

import os
import time

import pytest


@pytest.fixture
def marker() -> str:
    """A number of seconds that nobody else on this machine sleeps."""
    return f"{900 + os.getpid() % 1000}.{time.monotonic_ns() % 10**9:09d}"
