"""Each test has its own provider and its own key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keyturn.engine.run.log_cache import forget
from tests.tracing.watching import Seen


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-tracing-tests")
    yield
    forget()


@pytest.fixture
def seen() -> Seen:
    """Nothing, so far."""
    return Seen()
