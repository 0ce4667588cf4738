"""One process of each server for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.servers.independent import AimockServer, IndependentServer, LlmockServer


@pytest.fixture(scope="session")
def aimock() -> Iterator[IndependentServer]:
    """`@copilotkit/aimock`."""
    server = AimockServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def llmock() -> Iterator[IndependentServer]:
    """`llmock`."""
    server = LlmockServer()
    yield server
    server.stop()
